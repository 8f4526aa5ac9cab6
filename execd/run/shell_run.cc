#include "execd/run/shell_run.h"

#include "runtime/base/clock.h"

namespace atl::execd {
namespace {

// Size of one piece, because execve accepts at most 128 KiB in one argument.
constexpr size_t kStatePiece = 100 << 10;

}  // namespace

void AppendState(std::vector<std::string>* argv, std::string_view state) {
  for (size_t at = 0; at < state.size(); at += kStatePiece) {
    argv->emplace_back(state.substr(at, kStatePiece));
  }
}

Status ShellRun::Open(UniqueFd* out_write, UniqueFd* report_write) {
  ATOLL_ASSIGN(out_, OutputPipe::Open(&loop_, out_write,
                                      [this](std::string_view bytes) { OnOutput(bytes); }));
  ATOLL_ASSIGN(report_, OutputPipe::Open(&loop_, report_write,
                                         [this](std::string_view bytes) { OnReport(bytes); }));
  return {};
}

void ShellRun::Follow(std::function<void()> on_closed) {
  exchange_->OnWritable([this] {
    if (out_) out_->Resume();
  });
  exchange_->OnClosed([this, on_closed = std::move(on_closed)] {
    if (out_) out_->Resume();
    on_closed();
  });
}

std::string ShellRun::End() {
  exchange_->OnWritable(nullptr);
  exchange_->OnClosed(nullptr);
  out_->Drain();
  report_->Drain();
  report_.reset();
  return std::move(reported_);
}

void ShellRun::Finish(std::string_view warning, std::string_view last_events) {
  batch_.clear();
  events_.End(UnixMillis(), &batch_, warning);
  batch_.append(last_events);
  exchange_->Write(batch_);
  exchange_->Finish();
  OutputPipe::Abandon(std::move(out_));
}

void ShellRun::OnOutput(std::string_view bytes) {
  if (exchange_->closed()) return events_.Discard();
  batch_.clear();
  events_.Append(bytes, UnixMillis(), &batch_);
  exchange_->Write(batch_);
  if (exchange_->backlog() > Exchange::kHighWater && out_) out_->Pause();
}

void ShellRun::OnReport(std::string_view bytes) {
  if (reported_.size() + bytes.size() <= kMaxReport) {
    reported_.append(bytes);
  } else {
    // Without the closing NUL the report is invalid.
    reported_.clear();
  }
}

}  // namespace atl::execd
