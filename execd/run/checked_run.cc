#include "execd/run/checked_run.h"

#include <algorithm>
#include <utility>

namespace atl::execd {
namespace {

constexpr size_t kMaxOutput = 1024;

}  // namespace

Status CheckedRun::Start(SpawnSpec spec, int64_t timeout_us, Done done) {
  output_.clear();
  UniqueFd write_end;
  ATOLL_ASSIGN(auto pipe, OutputPipe::Open(&core_.loop, &write_end, [this](std::string_view bytes) {
                 output_.append(bytes.substr(bytes.size() - std::min(bytes.size(), kMaxOutput)));
                 if (output_.size() > kMaxOutput) output_.erase(0, output_.size() - kMaxOutput);
               }));
  ATOLL_ASSIGN(const UniqueFd null, OpenNull());
  spec.stdio[0] = null.get();
  spec.stdio[1] = spec.stdio[2] = write_end.get();
  ATOLL_ASSIGN(
      job_, Job::Start(&core_, std::move(spec), timeout_us,
                       [this, done = std::move(done)](const JobExit& exit) { Ended(exit, done); }));
  pipe_ = std::move(pipe);
  alive_ = std::make_shared<const bool>(true);
  return {};
}

void CheckedRun::Ended(const JobExit& exit, Done done) {
  pipe_->Drain();
  OutputPipe::Abandon(std::move(pipe_));
  Status status;
  if (exit.code != 0 || exit.signal != 0) {
    const size_t end = output_.find_last_not_of('\n');
    output_.resize(end == std::string::npos ? 0 : end + 1);
    status = Fail(exit.timed_out ? Code::kDeadlineExceeded : Code::kInternal,
                  exit.Describe() + (output_.empty() ? "" : ": " + output_));
  }
  // Posted, because the job that has ended is the caller.
  core_.loop.Post([this, alive = std::weak_ptr<const bool>(alive_), status = std::move(status),
                   done = std::move(done)] {
    if (alive.expired()) return;
    job_.reset();
    done(status);
  });
}

void CheckedRun::End() {
  alive_.reset();
  job_.reset();
  if (pipe_) OutputPipe::Abandon(std::move(pipe_));
}

}  // namespace atl::execd
