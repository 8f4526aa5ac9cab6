#include "tools/atoll/verbs/snapshot_archive.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "tools/atoll/archives/archives.h"
#include "tools/atoll/archives/skopeo.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/verbs/image_pull.h"
#include "tools/atoll/verbs/image_push.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

struct SnapshotPlace {
  std::string snapshot, name, form = "oci";
  ArchivePlace place;
};

ArchiveOf ArchiveOfSnapshot(const std::string& id, const std::string& form) {
  return {"/snapshots/" + PercentEncode(id), "snapshot " + id, form};
}

// Imports a snapshot and prints its id, as create does.
Status ImportSnapshot(const Settings& settings, const ArchivePlace& place,
                      const std::string& name) {
  ATOLL_ASSIGN(const http::Response response,
               SendArchive(settings, place,
                           name.empty() ? "/snapshots" : "/snapshots?name=" + PercentEncode(name),
                           name.empty() ? place.file : name));
  ATOLL_ASSIGN(const auto snapshot, ObjectOf(response));
  std::puts(settings.json ? JsonText(snapshot).c_str() : Printable(TextOf(snapshot, "id")).c_str());
  return {};
}

}  // namespace

void AddSnapshotArchiveVerbs(Verb& group, const Settings& settings) {
  const auto there = std::make_shared<SnapshotPlace>();
  const Argument one = {"SNAPSHOT", "Its id, as 'atoll snapshot ls' shows it", &there->snapshot};
  const Option name = {"--name", "NAME", "A name to give it; else its own", &there->name};
  group.Add("export", "Write a snapshot to an archive, an image for all other tools")
      .Takes(one)
      .Takes(Argument{"FILE", kArchiveTo, &there->place.file})
      .Takes(EndpointOption(there->place))
      .Takes(Option{"--format", "FORM", "oci (what is meant without it) or docker", &there->form})
      .Does([there, &settings]() -> Status {
        ATOLL_ASSIGN(Api api, Api::Connect(settings));
        return ExportArchive(api, ArchiveOfSnapshot(there->snapshot, there->form), there->place);
      })
      .Says(
          "With the layers below it: nothing else is needed where it is imported. The environment\n"
          "of its sandbox is in it, and whatever secrets that has.\n\n"
          "Examples:\n"
          "  atoll snapshot export $(atoll snapshot create web) web.tar\n"
          "  atoll run --snapshot $(atoll snapshot import web.tar) ls /srv");
  group.Add("import", "Take in a snapshot that was exported, as a new one, and say its id")
      .Takes(Argument{"FILE", "What 'atoll snapshot export' wrote, or s3://BUCKET/KEY",
                      &there->place.file})
      .Takes(name)
      .Takes(EndpointOption(there->place))
      .Does([there, &settings] { return ImportSnapshot(settings, there->place, there->name); });

  const auto push = std::make_shared<RegistryOptions>();
  Verb& pushes = group.Add("push", "Send a snapshot to a registry, as an image");
  pushes.Takes(Argument{"SNAPSHOT", "Its id, as 'atoll snapshot ls' shows it", &push->image});
  pushes.Takes(Argument{"NAME", "What it is to be called there, with the host", &push->name});
  AddWays(pushes, *push);
  pushes.Does([push, &settings]() -> Status {
    ATOLL_ASSIGN(Api api, Api::Connect(settings));
    return PushArchive(api, ArchiveOfSnapshot(push->image, "docker"), *push);
  });

  const auto pull = std::make_shared<RegistryOptions>();
  Verb& pulls = group.Add("pull", "Fetch a snapshot from a registry, as a new one, and say its id");
  pulls.Takes(Argument{"NAME", "As the registry has it, with its host", &pull->image});
  pulls.Takes(Option{"--name", "NAME", "A name to give it; else its own", &pull->name});
  AddWays(pulls, *pull);
  pulls.Does([pull, &settings] {
    return PullImage(settings, *pull, [&](const std::string& layout) {
      return ImportSnapshot(settings, {layout, ""}, pull->name);
    });
  });
}

}  // namespace atl::cli
