// What reads all that is stored of an image: its verification, and archives of it.
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/api/api.h"
#include "runtime/api/error_map.h"
#include "runtime/api/json.h"
#include "runtime/base/log.h"

namespace atl::api {
namespace {

// Passes an archive on as fast as the client takes it.
class Sending : public std::enable_shared_from_this<Sending> {
 public:
  Sending(std::shared_ptr<images::StoredArchive> archive,
          std::shared_ptr<http::ResponseStream> stream)
      : archive_(std::move(archive)), stream_(std::move(stream)) {}

  void Start() {
    // The stream holds us until it ends.
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
      // Without its end the client notices.
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

void Api::VerifyImage(const Call& call) {
  const std::string name = call.Parameter("name");
  parts_.images.Verify(
      name, [call, name](const Result<std::vector<images::ImageStore::VerifiedLayer>>& layers) {
        if (!layers) return call.Respond(MapError(layers.error(), Doing::kReadImage));
        nlohmann::json told = nlohmann::json::array();
        bool intact = true;
        for (const auto& [layer, same] : *layers) {
          told.push_back({{"digest", layer.blob_digest},
                          {"state", !same                   ? "broken"
                                    : layer.content.empty() ? "unrecorded"
                                                            : "intact"}});
          if (same) continue;
          intact = false;
          told.back()["message"] = call.answering().Tellable(same.error().message());
        }
        call.Respond(
            JsonResponse(200, {{"name", name}, {"intact", intact}, {"layers", std::move(told)}}));
      });
}

void Api::ExportImage(const Call& call, const std::string& form) {
  if (form != "oci" && form != "docker") {
    return call.Respond(
        MapError(Error(Code::kInvalidArgument, "archive must be oci or docker, not '" + form + "'"),
                 Doing::kReadImage));
  }
  parts_.images.Export(
      call.args[0], form == "oci" ? images::ArchiveForm::kOci : images::ArchiveForm::kDocker,
      [call](Result<std::shared_ptr<images::StoredArchive>> archive) {
        if (!archive) return call.Respond(MapError(archive.error(), Doing::kReadImage));
        http::Response head;
        head.status = 200;
        head.headers.Set("Content-Type", "application/x-tar");
        // The stream is chunked: this is for who shows how far it has come.
        head.headers.Set("X-Archive-Size", std::to_string((*archive)->size()));
        std::make_shared<Sending>(std::move(*archive), call.Stream(std::move(head)))->Start();
      });
}

}  // namespace atl::api
