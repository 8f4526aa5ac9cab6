#include "runtime/api/routes/log_follow.h"

#include <utility>

namespace atl::api {
namespace {

class Following : public std::enable_shared_from_this<Following> {
 public:
  Following(sandbox::EntrypointLogs& logs, std::string id,
            std::shared_ptr<sandbox::LogReader> reader,
            std::shared_ptr<http::ResponseStream> stream)
      : logs_(logs), id_(std::move(id)), reader_(std::move(reader)), stream_(std::move(stream)) {}

  void Follow(bool coming) {
    watch_ = logs_.Watch(id_, coming, [weak = weak_from_this()](bool ended) {
      if (const auto self = weak.lock()) self->OnGrown(ended);
    });
    Start();
  }
  void Start() {
    // The stream keeps this object alive until it ends; the log does not.
    stream_->OnEvents([self = shared_from_this()] { self->Step(); },
                      [self = shared_from_this()] { self->End(); });
    ended_ = watch_ == 0;
    Step();
  }

 private:
  void OnGrown(bool ended) {
    ended_ = ended_ || ended;
    if (ended) watch_ = 0;
    grown_ = true;
    Step();
  }

  // Reads once at a time, and not before the client has taken the previous part.
  void Step() {
    if (done_ || reading_ || stream_->backlog() > 0 || !grown_) return;
    reading_ = true;
    grown_ = false;
    logs_.Read(id_, reader_, [self = shared_from_this()](std::string text) {
      self->reading_ = false;
      self->Send(std::move(text));
    });
  }

  void Send(std::string text) {
    if (done_) return;
    grown_ = grown_ || reader_->more();
    const bool last = ended_ && !grown_;
    if (last) text += reader_->Finish();
    const bool silent = text.empty();
    stream_->Write(std::move(text));
    if (last) {
      End();
      stream_->Finish();
    } else if (silent) {
      Step();  // no drain event would call it
    }
  }

  void End() {
    done_ = true;
    if (watch_ != 0) logs_.Unwatch(id_, std::exchange(watch_, 0));
  }

  sandbox::EntrypointLogs& logs_;
  const std::string id_;
  const std::shared_ptr<sandbox::LogReader> reader_;
  const std::shared_ptr<http::ResponseStream> stream_;
  uint64_t watch_ = 0;
  bool reading_ = false;
  bool grown_ = true;  // the log may have unread output
  bool ended_ = false;
  bool done_ = false;
};

}  // namespace

void FollowLog(sandbox::EntrypointLogs& logs, const std::string& id, bool coming,
               std::shared_ptr<sandbox::LogReader> reader,
               std::shared_ptr<http::ResponseStream> stream) {
  std::make_shared<Following>(logs, id, std::move(reader), std::move(stream))->Follow(coming);
}

void SendLog(sandbox::EntrypointLogs& logs, const std::string& id,
             std::shared_ptr<sandbox::LogReader> reader,
             std::shared_ptr<http::ResponseStream> stream) {
  std::make_shared<Following>(logs, id, std::move(reader), std::move(stream))->Start();
}

}  // namespace atl::api
