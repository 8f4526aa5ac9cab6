#include "execd/run/shell_run.h"

#include "runtime/base/clock.h"

namespace atl::execd {
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
  too_long_ = too_long_ || reported_.size() + bytes.size() > kMaxReport;
  if (too_long_) {
    std::string().swap(reported_);
  } else {
    reported_.append(bytes);
  }
}

}  // namespace atl::execd
