#include "runtime/spawner/host/tier.h"

#include <algorithm>

namespace atl::spawner {
namespace {

std::string NameOf(Verb verb) {
  switch (verb) {
    case Verb::kPrepare:
      return "prepare a slot on this host";
    case Verb::kBuild:
      return "build a sandbox";
    case Verb::kLimit:
      return "change the limits of a sandbox";
    case Verb::kFreeze:
      return "pause a sandbox";
    case Verb::kReclaim:
      return "move a sandbox's memory to swap";
    case Verb::kCopy:
      return "copy what a sandbox has written";
    case Verb::kDiff:
      return "compare a sandbox with layers";
    case Verb::kSession:
      return "make an isolated session";
  }
  return "do that";
}

}  // namespace

Result<Tier*> Tiers::Able(std::string_view name, Verb verb) const {
  const auto found = std::find_if(tiers_.begin(), tiers_.end(),
                                  [name](const auto& tier) { return tier->name() == name; });
  if (found == tiers_.end()) {
    return Fail(Code::kUnimplemented, "this spawner has no tier '" + std::string(name) + "'");
  }
  if ((*found)->Can(verb)) return found->get();
  return Fail(Code::kUnimplemented, "the tier '" + std::string(name) + "' cannot " + NameOf(verb));
}

std::vector<std::string> Tiers::Available() const {
  std::vector<std::string> names;
  for (const auto& tier : tiers_) {
    if (tier->Can(Verb::kPrepare)) names.emplace_back(tier->name());
  }
  return names;
}

}  // namespace atl::spawner
