#include "runtime/sandbox/volumes/lost_volumes.h"

#include <algorithm>
#include <string>

#include "runtime/base/log.h"

namespace atl::sandbox {

void LostVolumes::OnLost(const wire::VolumeLost& lost) {
  const Sandbox* const user = registry_.ByHost(lost.id);
  if (user == nullptr || lost.index >= user->spec.volumes.size()) return;
  // Each new spawner, and each comparison, reports the loss again.
  if (!told_[user].insert(lost.index).second) return;
  const Sandbox& sandbox = *user;
  const std::string text = "the bucket at " + sandbox.spec.volumes[lost.index].target +
                           " is not served any more: what uses it is told that it is not "
                           "connected; create another sandbox";
  const auto before = history_.Find(sandbox.id);
  const bool known = before && std::any_of(before->begin(), before->end(), [&](const auto& event) {
                       return event.kind == kVolumeLost && event.message == text;
                     });
  if (known || IsLeaving(sandbox.state)) return;
  LogLine(LogLevel::kWarning, "a bucket is not served any more")
      .Add("sandbox", sandbox.id)
      .Add("volume", sandbox.spec.volumes[lost.index].target);
  history_.Add(sandbox, {clock_.UnixMillis(), kVolumeLost, "VOLUME_LOST", text});
}

}  // namespace atl::sandbox
