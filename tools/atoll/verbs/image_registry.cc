// atoll image pull and push
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/atoll/archives/skopeo.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/verbs/image_import.h"
#include "tools/atoll/verbs/image_list.h"
#include "tools/atoll/verbs/image_pull.h"
#include "tools/atoll/verbs/image_push.h"
#include "tools/atoll/verbs/image_verbs.h"

namespace atl::cli {
namespace {

Status PullAndImport(const Settings& settings, const RegistryOptions& options) {
  return PullImage(settings, options, [&](const std::string& layout) -> Status {
    ATOLL_TRY(
        ImportImage(settings, {layout, ""}, options.name.empty() ? options.image : options.name));
    return {};
  });
}

Status FindAndPush(const Settings& settings, const RegistryOptions& options) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const auto image, FindImage(api, options.image));
  const std::string name = TextOf(image, "name");
  return PushArchive(api, {"/images/" + PercentEncode(name), name, "docker"}, options);
}

}  // namespace

void AddRegistryVerbs(Verb& group, const Settings& settings, bool hidden) {
  const auto pull = std::make_shared<RegistryOptions>();
  Verb& pulls = group.Add("pull", "Fetch an image from a registry");
  pulls.Takes(Argument{"NAME", "As the registry has it, with its host", &pull->image});
  pulls.Takes(Option{"--name", "NAME[:TAG]", "Name to give it; else the same", &pull->name});
  AddWays(pulls, *pull);
  pulls.Says(
      "skopeo (apt-get install skopeo) speaks to the registry, as nobody, through the proxy that\n"
      "HTTPS_PROXY names, but for what NO_PROXY names. Layers that are here are not fetched. When "
      "it\n"
      "is interrupted, the layers that have come are kept, and the next pull goes on with them.\n\n"
      "Examples:\n"
      "  atoll image pull docker.io/library/alpine:3 --name alpine:3\n"
      "  skopeo login --authfile auth.json registry.example && chmod 600 auth.json\n"
      "  atoll image pull --authfile auth.json registry.example/team/tool:1");
  pulls.Does([pull, &settings] { return PullAndImport(settings, *pull); });

  const auto push = std::make_shared<RegistryOptions>();
  Verb& pushes = group.Add("push", "Send an image to a registry");
  pushes.Takes(Argument{"IMAGE", "An image as 'atoll image ls' shows it", &push->image});
  pushes.Takes(Argument{"NAME", "What it is to be called there, with the host; else the same",
                        &push->name, false});
  AddWays(pushes, *push);
  pushes.Does([push, &settings] { return FindAndPush(settings, *push); });
  if (!hidden) return;
  pulls.Hidden();
  pushes.Hidden();
}

}  // namespace atl::cli
