// atoll fork|rollback|diff
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "runtime/base/sys.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

Status Fork(const Settings& settings, const std::string& given, int count) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveId(api, given));
  ATOLL_ASSIGN(
      const http::Response response,
      api.Send("POST", "/sandboxes/" + PercentEncode(id) + "/fork", JsonText({{"count", count}})));
  ATOLL_ASSIGN(const json forked, ObjectOf(response));
  if (settings.json) {
    std::puts(JsonText(forked).c_str());
    return {};
  }
  for (const json& child : forked.value("items", json::array())) {
    std::puts(Printable(TextOf(child, "id")).c_str());
  }
  return {};
}

Status RollBack(const Settings& settings, const std::string& given, const std::string& snapshot) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveId(api, given));
  ATOLL_ASSIGN(const http::Response response,
               api.Send("POST", "/sandboxes/" + PercentEncode(id) + "/rollback",
                        JsonText({{"snapshotId", snapshot}})));
  ATOLL_ASSIGN(const json sandbox, ObjectOf(response));
  std::puts(settings.json ? JsonText(sandbox).c_str() : Printable(TextOf(sandbox, "id")).c_str());
  return {};
}

struct DiffOptions {
  std::string id, against = "image", file;
};

// Writes the archive to a file, and removes an incomplete file.
Status SaveArchive(Api& api, const std::string& target, const std::string& file) {
  const bool standard = file == "-";
  UniqueFd opened;
  if (!standard) {
    ATOLL_ASSIGN(opened, sys::Open(file, O_WRONLY | O_CREAT | O_TRUNC, 0666));
  }
  const int out = standard ? STDOUT_FILENO : opened.get();
  Status written;
  const auto response =
      api.Stream({.method = "GET", .target = target}, [&](std::string_view bytes) {
        written = sys::WriteAll(out, bytes);
        return written.has_value();
      });
  if (written && response) return {};
  if (!standard) ::unlink(file.c_str());
  if (!written) return Fail(std::move(written).error().Wrap("write " + file));
  return Fail(response.error());
}

Status Diff(const Settings& settings, const DiffOptions& options) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveId(api, options.id));
  const std::string target = "/sandboxes/" + PercentEncode(id) +
                             "/diff?against=" + PercentEncode(options.against) + "&format=";
  if (!options.file.empty()) return SaveArchive(api, target + "tar", options.file);
  ATOLL_ASSIGN(const json told, Fetch(api, target + "list"));
  if (settings.json) {
    std::puts(JsonText(told).c_str());
    return {};
  }
  for (const json& item : told.value("items", json::array())) {
    const std::string kind = TextOf(item, "kind");
    const char letter = kind == "added" ? 'A' : kind == "deleted" ? 'D' : 'M';
    std::printf("%c %s\n", letter, Printable(TextOf(item, "path")).c_str());
  }
  if (!told.value("truncated", false)) return {};
  return Fail(Code::kResourceExhausted, "the list was cut off because it is too long; use -o FILE");
}

}  // namespace

void AddBranchVerbs(Verb& root, const Settings& settings) {
  struct Options {
    std::string id;
    int count = 1;
  };
  const auto options = std::make_shared<Options>();
  root.Add("fork", "Start sandboxes with the files that one has now, all of them or none")
      .Takes(Argument{"ID", kOneSandbox, &options->id})
      .Takes(Option{"-n,--count", "N", "How many", &options->count, Range{1, 64}})
      .Says(
          "Prints their ids. They have its image, env, limits, network policy, labels, volumes\n"
          "and expiry; not its processes and memory: the entrypoint starts anew in each.\n\n"
          "Example:\n"
          "  for child in $(atoll fork web -n 3); do atoll exec $child ls /srv; done")
      .Does([options, &settings] { return Fork(settings, options->id, options->count); });

  struct RollbackOptions {
    std::string id, snapshot;
  };
  const auto back = std::make_shared<RollbackOptions>();
  root.Add("rollback", "Give a sandbox the files of a snapshot; its processes start anew")
      .Takes(Argument{"ID", kOneSandbox, &back->id})
      .Takes(Argument{"SNAPSHOT", "Its id, of a snapshot of the same image", &back->snapshot})
      .Says(
          "It keeps its id, name, endpoints, env, limits, network policy, labels, volumes and\n"
          "expiry. What it has written since is gone, its log begins anew, and its entrypoint\n"
          "starts, also if it was paused.\n\n"
          "Example:\n"
          "  before=$(atoll snapshot create web)\n"
          "  atoll exec web ./upgrade || atoll rollback web $before")
      .Does([back, &settings] { return RollBack(settings, back->id, back->snapshot); });

  const auto diff = std::make_shared<DiffOptions>();
  root.Add("diff", "What a sandbox holds otherwise than its image, or than a snapshot")
      .Takes(Argument{"ID", kOneSandbox, &diff->id})
      .Takes(Option{"--against", "SNAPSHOT", "Not its image but a snapshot of the same image",
                    &diff->against})
      .Takes(Option{"-o,--output", "FILE",
                    "Write it as a layer, a tar, there; - is standard output", &diff->file})
      .Says(
          "A added, M modified, D deleted. Pause a sandbox first that must not change "
          "meanwhile.\n\n"
          "Examples:\n"
          "  atoll diff web\n"
          "  atoll diff web --against $(atoll snapshot ls -q --name configured) -o changes.tar")
      .Does([diff, &settings] { return Diff(settings, *diff); });
}

}  // namespace atl::cli
