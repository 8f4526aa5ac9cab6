#include "execd/files/upload.h"

#include <deque>

#include "execd/files/file_writer.h"
#include "execd/files/multipart.h"

namespace atl::execd {
namespace {

constexpr size_t kMaxMetadata = 64 << 10;
constexpr size_t kMaxWaiting = 1024;

class UploadRequest : private MultipartParser::Sink {
 public:
  UploadRequest(Core* core, Exchange* exchange, Actor actor, std::string boundary)
      : core_(*core),
        exchange_(*exchange),
        actor_(std::move(actor)),
        parser_(std::move(boundary), this) {}

  void OnBody(std::string_view bytes) {
    if (exchange_.started()) return;
    if (const Status status = parser_.Feed(bytes); !status) Refuse(status.error());
  }

  void OnEnd() {
    if (exchange_.started()) return;
    if (!parser_.complete()) {
      Refuse("INVALID_FILE", "multipart body ends in the middle of a part");
    } else if (metadata_parts_ == 0) {
      Refuse("INVALID_FILE", "no metadata part (it must carry a filename)");
    } else if (file_parts_ == 0) {
      Refuse("INVALID_FILE", "no file part");
    } else if (!waiting_.empty()) {
      Refuse("INVALID_FILE", std::to_string(metadata_parts_) + " metadata parts, but " +
                                 std::to_string(file_parts_) + " file parts");
    } else {
      exchange_.RespondEmpty();
    }
  }

 private:
  struct Target {
    std::string path;
    Permission permission;
  };
  enum class Part { kOther, kMetadata, kFile };

  void Refuse(const char* code, const std::string& message) {
    writer_.reset();
    exchange_.RespondError(400, code, message);
  }
  // Answers an error of the sink or of the grammar; failure_ marks the sink's errors.
  void Refuse(const Error& error) {
    writer_.reset();
    if (failure_ == nullptr) {
      exchange_.RespondError(400, "INVALID_FILE", error.message());
    } else {
      exchange_.RespondError(failed_status_, failure_, error.message());
    }
  }
  Status FailAs(int status, const char* code, Error error) {
    // Clients look for "permission", which the text of EPERM lacks.
    if (error.code() == Code::kPermissionDenied) error = std::move(error).Wrap("no permission");
    failed_status_ = status;
    failure_ = code;
    return Fail(std::move(error));
  }

  Status OnPart(std::string_view name, bool has_filename) override {
    part_ = Part::kOther;
    // Upstream treats a part without filename as a plain value and ignores it.
    if (!has_filename) return {};
    if (name == "metadata") {
      part_ = Part::kMetadata;
      ++metadata_parts_;
      metadata_.clear();
    } else if (name == "file") {
      part_ = Part::kFile;
      ++file_parts_;
      return BeginFile();
    }
    return {};
  }

  Status BeginFile() {
    if (waiting_.empty()) {
      return FailAs(400, "INVALID_FILE",
                    Error(Code::kInvalidArgument, "file part " + std::to_string(file_parts_) +
                                                      ": its metadata part must come before it"));
    }
    auto writer =
        FileWriter::Open(&core_, actor_, waiting_.front().path, waiting_.front().permission);
    if (!writer) return FailAs(500, "RUNTIME_ERROR", std::move(writer).error());
    writer_ = std::move(*writer);
    return {};
  }

  Status OnData(std::string_view bytes) override {
    if (part_ == Part::kMetadata) {
      if (metadata_.size() + bytes.size() > kMaxMetadata) {
        return FailAs(400, "INVALID_FILE_METADATA",
                      Error(Code::kInvalidArgument, "metadata: more than 64 KiB"));
      }
      metadata_.append(bytes);
    } else if (part_ == Part::kFile) {
      if (auto wrote = writer_->Write(bytes); !wrote) {
        return FailAs(500, "RUNTIME_ERROR", std::move(wrote).error());
      }
    }
    return {};
  }

  Status OnPartEnd() override {
    if (part_ == Part::kMetadata) {
      auto target = ParseMetadata();
      if (!target) return FailAs(400, "INVALID_FILE_METADATA", std::move(target).error());
      if (waiting_.size() == kMaxWaiting) {
        return FailAs(400, "INVALID_FILE",
                      Error(Code::kInvalidArgument, "more than 1024 metadata parts in a row"));
      }
      waiting_.push_back(std::move(*target));
    } else if (part_ == Part::kFile) {
      auto committed = writer_->Commit(waiting_.front().permission);
      writer_.reset();
      waiting_.pop_front();
      if (!committed) return FailAs(500, "RUNTIME_ERROR", std::move(committed).error());
    }
    return {};
  }

  Result<Target> ParseMetadata() {
    ATOLL_ASSIGN(const JsonDocument document, ParseObject(std::move(metadata_), false));
    metadata_.clear();
    Target target;
    ATOLL_ASSIGN(const std::string path, TextMember(document.root(), "path"));
    if (path.empty()) return Fail(Code::kInvalidArgument, "metadata: path is empty or missing");
    ATOLL_ASSIGN(target.path, core_.Path(path));
    ATOLL_ASSIGN(target.permission, ParsePermission(document.root(), &core_.names));
    return target;
  }

  Core& core_;
  Exchange& exchange_;
  const Actor actor_;
  MultipartParser parser_;
  Part part_ = Part::kOther;
  std::string metadata_;
  std::deque<Target> waiting_;
  std::unique_ptr<FileWriter> writer_;
  size_t metadata_parts_ = 0, file_parts_ = 0;
  int failed_status_ = 0;
  const char* failure_ = nullptr;
};

}  // namespace

void Upload(Core* core, const std::shared_ptr<Exchange>& exchange, Actor actor) {
  const std::string* type = exchange->head().Find("content-type");
  auto boundary = MultipartBoundary(type ? std::string_view(*type) : std::string_view());
  if (!boundary) {
    exchange->RespondError(400, "INVALID_FILE", boundary.error().message());
    return;
  }
  core->names.Refresh();
  auto request =
      std::make_shared<UploadRequest>(core, exchange.get(), std::move(actor), std::move(*boundary));
  exchange->StreamBody([request](std::string_view bytes) { request->OnBody(bytes); },
                       [request] { request->OnEnd(); });
}

}  // namespace atl::execd
