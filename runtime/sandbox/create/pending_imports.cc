#include "runtime/sandbox/create/pending_imports.h"

#include <utility>

namespace atl::sandbox {
namespace {

// Progress is for people; programs poll less often.
constexpr int64_t kProgressUs = 250 * 1000;

}  // namespace

PendingImports::~PendingImports() {
  loop_.Cancel(timer_);
  for (const auto& [name, image] : images_) {
    for (const auto& [sandbox, waiting] : image.waiting) loop_.Cancel(waiting.deadline);
  }
}

PendingImports::Id PendingImports::Begin(const std::string& image, Progress progress) {
  images_[image].attempts.emplace(++last_, std::move(progress));
  return last_;
}

Status PendingImports::CheckRoom(const std::string& tenant) const {
  if (places_.HasRoomFor(tenant)) return {};
  return Fail(Code::kResourceExhausted, (tenant.empty() ? std::to_string(waiting_) : "too many") +
                                            " sandboxes wait for images; try again later");
}

void PendingImports::Wait(const std::string& image, const std::string& tenant,
                          const std::string& sandbox, Waiter waiter) {
  const auto found = images_.find(image);
  if (found == images_.end()) return;
  const std::string progress = found->second.attempts.begin()->second();
  waiter.progress(progress);
  const Loop::Id deadline =
      loop_.After(kPatienceUs, [this, image, sandbox] { GiveUp(image, sandbox); });
  found->second.waiting.emplace(sandbox,
                                Waiting{std::move(waiter), deadline, places_.Take(tenant)});
  if (++waiting_ == 1) timer_ = loop_.After(kProgressUs, [this] { ShowProgress(); });
}

void PendingImports::Forget(const std::string& sandbox) {
  for (auto& [key, image] : images_) {
    const auto waiting = image.waiting.find(sandbox);
    if (waiting == image.waiting.end()) continue;
    loop_.Cancel(waiting->second.deadline);
    image.waiting.erase(waiting);
    if (--waiting_ == 0) loop_.Cancel(std::exchange(timer_, 0));
    return;
  }
}

void PendingImports::GiveUp(const std::string& image, const std::string& sandbox) {
  const Waiter waiter = std::move(images_.at(image).waiting.at(sandbox).waiter);
  Forget(sandbox);
  waiter.over(Fail(Code::kDeadlineExceeded,
                   "the import takes longer than an hour and continues; create the sandbox again "
                   "when the image is there"));
}

void PendingImports::ShowProgress() {
  for (const auto& [name, image] : images_) {
    if (image.waiting.empty()) continue;
    const std::string progress = image.attempts.begin()->second();
    for (const auto& [sandbox, waiting] : image.waiting) waiting.waiter.progress(progress);
  }
  timer_ = loop_.After(kProgressUs, [this] { ShowProgress(); });
}

void PendingImports::End(Id id, const Status& imported) {
  for (auto at = images_.begin(); at != images_.end(); ++at) {
    Image& image = at->second;
    if (image.attempts.erase(id) == 0) continue;
    if (!imported && !image.attempts.empty()) return;
    const std::map<std::string, Waiting> all = std::exchange(image.waiting, {});
    if (image.attempts.empty()) images_.erase(at);
    waiting_ -= all.size();
    if (waiting_ == 0) loop_.Cancel(std::exchange(timer_, 0));
    for (const auto& [sandbox, waiting] : all) loop_.Cancel(waiting.deadline);
    for (const auto& [sandbox, waiting] : all) waiting.waiter.over(imported);
    return;
  }
}

}  // namespace atl::sandbox
