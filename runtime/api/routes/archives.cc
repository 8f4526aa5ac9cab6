// Uploads and downloads of archives, of images and of snapshots.
#include <sys/statvfs.h>

#include <cerrno>
#include <charconv>
#include <utility>

#include "runtime/api/gate/error_map.h"
#include "runtime/api/routes/api.h"
#include "runtime/base/disk_full.h"
#include "runtime/base/log.h"

namespace atl::api {
namespace {

std::string Mebibytes(uint64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

// Returns the error for an archive that does not fit on the disk. `size` is 0 if unknown.
Error NoRoom(uint64_t size, uint64_t free) {
  return Error(Code::kResourceExhausted,
               "no room for the archive on the file system of <data_dir>/state: " +
                   (size == 0 ? std::string() : "it has " + Mebibytes(size) + ", ") +
                   Mebibytes(free) +
                   " are free; make room, it takes twice its size while it is unpacked",
               ENOSPC);
}

uint64_t FreeBytes(int archive) {
  struct statvfs info {};
  return ::fstatvfs(archive, &info) == 0 ? uint64_t{info.f_bavail} * info.f_frsize : 0;
}

// Returns the Content-Length; 0 if there is none.
uint64_t AnnouncedSize(const http::Request& request) {
  const std::string_view text = request.headers.Get("Content-Length");
  uint64_t size = 0;
  std::from_chars(text.data(), text.data() + text.size(), size);
  return size;
}

// Sends an archive as fast as the client reads it.
class Sending : public std::enable_shared_from_this<Sending> {
 public:
  Sending(std::shared_ptr<images::StoredArchive> archive,
          std::shared_ptr<http::ResponseStream> stream)
      : archive_(std::move(archive)), stream_(std::move(stream)) {}

  void Start() {
    // The stream keeps this object alive until it ends.
    stream_->OnEvents([self = shared_from_this()] { self->Step(); }, [] {});
    Step();
  }

 private:
  void Step() {
    if (reading_ || stream_->closed() || stream_->backlog() > 0) return;
    reading_ = true;
    archive_->Read([self = shared_from_this()](Result<std::string> part) {
      self->reading_ = false;
      self->Send(std::move(part));
    });
  }
  void Send(Result<std::string> part) {
    if (!part) {
      // The stream is not finished, so the client notices that the archive is incomplete.
      LogLine(LogLevel::kError, "an export is cut off").Add(part.error());
      stream_->OnEvents([] {}, [] {});
    } else if (part->empty()) {
      stream_->Finish();
    } else {
      stream_->Write(std::move(*part));
      Step();
    }
  }

  const std::shared_ptr<images::StoredArchive> archive_;
  const std::shared_ptr<http::ResponseStream> stream_;
  bool reading_ = false;
};

}  // namespace

std::shared_ptr<UniqueFd> Api::NewArchive(const Call& call, Doing doing) {
  auto file = parts_.images.TemporaryFile();
  if (!file) {
    call.Respond(MapError(file.error(), doing));
    return nullptr;
  }
  const uint64_t announced = AnnouncedSize(call.request());
  const uint64_t free = FreeBytes(file->get());
  if (announced <= config_.max_image_bytes && announced >= free) {
    call.Respond(MapError(NoRoom(announced, free), doing));
    return nullptr;
  }
  return std::make_shared<UniqueFd>(std::move(*file));
}

void Api::SaveArchive(const Call& call, const std::shared_ptr<UniqueFd>& archive, Doing doing,
                      std::function<void(const Status&)> then) {
  call.exchange().SaveBody(
      archive->get(), config_.max_image_bytes,
      [call, archive, doing, then = std::move(then)](const Result<uint64_t>& saved) {
        if (saved) return then({});
        // Another writer may have used the free space meanwhile.
        const Error error = IsDiskFull(saved.error())
                                ? NoRoom(AnnouncedSize(call.request()), FreeBytes(archive->get()))
                                : saved.error();
        call.Respond(MapError(error, doing));
        then(Fail(saved.error()));
      });
}

void Api::SendArchive(const Call& call, const images::Image& image, const std::string& form,
                      Doing doing) {
  if (form != "oci" && form != "docker") {
    return call.Respond(MapError(
        Error(Code::kInvalidArgument, "archive must be oci or docker, not '" + form + "'"), doing));
  }
  parts_.images.Export(
      image, form == "oci" ? images::ArchiveForm::kOci : images::ArchiveForm::kDocker,
      [call, doing](Result<std::shared_ptr<images::StoredArchive>> archive) {
        if (!archive) return call.Respond(MapError(archive.error(), doing));
        http::Response head;
        head.status = 200;
        head.headers.Set("Content-Type", "application/x-tar");
        // The stream is chunked and has no length; clients use this header to show progress.
        head.headers.Set("X-Archive-Size", std::to_string((*archive)->size()));
        std::make_shared<Sending>(std::move(*archive), call.Stream(std::move(head)))->Start();
      });
}

}  // namespace atl::api
