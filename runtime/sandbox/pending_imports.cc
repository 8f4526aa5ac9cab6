#include "runtime/sandbox/pending_imports.h"

#include <utility>

namespace atl::sandbox {

PendingImports::Id PendingImports::Begin(const std::string& image, Progress progress) {
  images_[image].attempts.emplace(++last_, std::move(progress));
  return last_;
}

void PendingImports::Wait(const std::string& image, const std::string& sandbox) {
  const auto found = images_.find(image);
  if (found != images_.end() && found->second.waiting.insert(sandbox).second) ++waiting_;
}

void PendingImports::Forget(const std::string& image, const std::string& sandbox) {
  const auto found = images_.find(image);
  if (found != images_.end()) waiting_ -= found->second.waiting.erase(sandbox);
}

void PendingImports::ForEachWaiting(
    const std::function<void(const std::string&, const std::string&)>& visit) const {
  for (const auto& [name, image] : images_) {
    if (image.waiting.empty()) continue;
    const std::string progress = image.attempts.begin()->second();
    for (const std::string& sandbox : image.waiting) visit(sandbox, progress);
  }
}

std::vector<std::string> PendingImports::End(Id id, bool imported) {
  for (auto at = images_.begin(); at != images_.end(); ++at) {
    Image& image = at->second;
    if (image.attempts.erase(id) == 0) continue;
    if (!imported && !image.attempts.empty()) return {};
    const std::vector<std::string> released(image.waiting.begin(), image.waiting.end());
    waiting_ -= released.size();
    image.waiting.clear();
    if (image.attempts.empty()) images_.erase(at);
    return released;
  }
  return {};
}

}  // namespace atl::sandbox
