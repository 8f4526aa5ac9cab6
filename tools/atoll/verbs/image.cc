// atoll image import|ls|inspect|tag|rm|prune, and the others of its group; and docker's load,
// images, tag, rmi
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/report.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/verbs/image_import.h"
#include "tools/atoll/verbs/image_list.h"
#include "tools/atoll/verbs/image_verbs.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/columns.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

constexpr char kArchive[] =
    "An OCI archive or layout directory, or what 'docker save' wrote; plain or compressed; or "
    "s3://BUCKET/KEY";

struct ListOptions {
  ListStyle style;
  std::string name;
  bool all = false;
};

// Returns true if `name` is the image's REPOSITORY or REPOSITORY:TAG.
bool IsCalled(const std::string& image, const std::string& name) {
  return image == name || (image.starts_with(name) && image.rfind(':') == name.size());
}

Status ListImages(const Settings& settings, const ListOptions& options) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(auto list, Fetch(api, "/images"));
  if (!options.name.empty()) {
    nlohmann::json named = nlohmann::json::array();
    for (const auto& image : list.value("items", nlohmann::json::array())) {
      if (IsCalled(TextOf(image, "name"), options.name)) named.push_back(image);
    }
    list["items"] = std::move(named);
  }
  if (settings.json && options.style.format.empty()) {
    std::puts(JsonText(list).c_str());
    return {};
  }
  Columns columns({"Name", "Digest", "Size", "Layers", "Imported"},
                  {{"ID", "Digest"}, {"CreatedAt", "Imported"}, {"CreatedSince", "Imported"}},
                  {"Repository", "Tag"});
  for (const auto& image : list.value("items", nlohmann::json::array())) {
    const std::string name = TextOf(image, "name");
    const size_t colon = std::min(name.rfind(':'), name.size());
    columns.Add({name, TextOf(image, "digest").substr(0, 19),
                 HumanSize(image.value("sizeBytes", uint64_t{0})), TextOf(image, "layers"),
                 TimeOf(image, "createdAt"), name.substr(0, colon),
                 colon < name.size() ? name.substr(colon + 1) : ""});
  }
  return columns.Print(options.style);
}

Status InspectImages(const Settings& settings, const Words& names) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  nlohmann::json all = nlohmann::json::array();
  for (const std::string& name : names) {
    ATOLL_ASSIGN(all.emplace_back(), FindImage(api, name));
  }
  std::puts((settings.json ? JsonText(all) : PrettyJson(all)).c_str());
  return {};
}

Status RemoveImage(Api& api, const std::string& given, bool force) {
  ATOLL_ASSIGN(const auto image, FindImage(api, given));
  const std::string name = TextOf(image, "name");
  if (!force) {
    ATOLL_ASSIGN(const auto sandboxes, FetchSandboxes(api, ""));
    for (const SandboxEntry& sandbox : sandboxes) {
      if (sandbox.image != name || sandbox.HasEnded()) continue;
      return Fail(Code::kFailedPrecondition,
                  "image " + name + " is in use by sandbox " + sandbox.id +
                      (sandbox.name.empty() ? "" : " (" + sandbox.name + ")") +
                      "; delete that first, or take only the name away with --force: what the "
                      "sandbox needs stays as long as it does");
    }
    const auto snapshots = image.value("snapshots", nlohmann::json::array());
    if (!snapshots.empty()) {
      return Fail(Code::kFailedPrecondition,
                  "image " + name + " is in use by snapshot " + JsonText(snapshots.at(0)) +
                      "; delete that first, or take only the name away with --force: what the "
                      "snapshot needs stays as long as it does");
    }
  }
  ATOLL_TRY(api.Send("DELETE", "/images/" + PercentEncode(name)));
  return {};
}

Status RemoveImages(const Settings& settings, const Words& names, bool force) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  Status last;
  for (const std::string& name : names) {
    Status done = RemoveImage(api, name, force);
    if (done && !settings.json) std::printf("removed %s\n", Printable(name).c_str());
    if (done) continue;
    if (!last) Report(settings, last.error());
    last = std::move(done);
  }
  return last;
}

Status TagImage(const Settings& settings, const std::string& from, const std::string& name) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  // Looks the image up first, because that error suggests similar names.
  ATOLL_ASSIGN(const auto image, FindImage(api, from));
  ATOLL_ASSIGN(const auto tagged, GiveName(api, TextOf(image, "name"), name));
  if (settings.json) {
    std::puts(JsonText(tagged).c_str());
  } else {
    std::printf("%s is %s, too\n", Printable(TextOf(image, "name")).c_str(),
                Printable(TextOf(tagged, "name")).c_str());
  }
  return {};
}

Status PruneImages(const Settings& settings, bool all) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const auto response,
               api.Send("POST", all ? "/images/prune?all=true" : "/images/prune"));
  ATOLL_ASSIGN(const auto pruned, ObjectOf(response));
  if (settings.json) {
    std::puts(JsonText(pruned).c_str());
    return {};
  }
  for (const auto& name : pruned.value("images", nlohmann::json::array())) {
    std::printf("removed %s\n", Printable(name.get<std::string>()).c_str());
  }
  const uint64_t layers = pruned.value("layers", uint64_t{0});
  std::printf("freed %s of %s layer%s\n",
              HumanSize(pruned.value("freedBytes", uint64_t{0})).c_str(),
              std::to_string(layers).c_str(), layers == 1 ? "" : "s");
  return {};
}

void AddTag(Verb& parent, const Settings& settings, bool hidden) {
  struct Options {
    std::string from, name;
  };
  const auto options = std::make_shared<Options>();
  Verb& tag = parent.Add("tag", "Give an image another name as well");
  if (hidden) tag.Hidden();
  tag.Takes(Argument{"IMAGE", "An image as 'atoll image ls' shows it", &options->from});
  tag.Takes(
      Argument{"NAME", "The other name; a tag in it is 'latest' if not said", &options->name});
  tag.Does([options, &settings] { return TagImage(settings, options->from, options->name); });
}

void AddPrune(Verb& parent, const Settings& settings) {
  struct Options {
    bool all = false, force = false;
  };
  const auto options = std::make_shared<Options>();
  parent.Add("prune", "Remove layers that no image and no sandbox uses")
      .Takes(Option{"-a,--all", "", "Images that no sandbox uses, too", &options->all})
      .Takes(Option{"-f,--force", "", "As always: nothing is asked", &options->force})
      .Does([options, &settings] { return PruneImages(settings, options->all); });
}

void AddList(Verb& parent, const char* name, const Settings& settings, bool hidden) {
  const auto list = std::make_shared<ListOptions>();
  Verb& ls = parent.Add(name, "List images");
  if (hidden) ls.Hidden();
  ls.Takes(
      Argument{"NAME", "Only this image, or those of this name with any tag", &list->name, false});
  TakesListStyle(ls, &list->style, "Only names", "{{.Name}} {{.Size}}");
  ls.Takes(Option{"-a,--all", "", "As always", &list->all});
  ls.Does([list, &settings] { return ListImages(settings, *list); });
}

void AddRemove(Verb& parent, const char* name, const Settings& settings, bool hidden) {
  struct Options {
    Words names;
    bool force = false;
  };
  const auto options = std::make_shared<Options>();
  Verb& rm = parent.Add(name, "Remove images that no sandbox uses");
  if (hidden) rm.Hidden();
  rm.Takes(Argument{"IMAGE", "Images as 'atoll image ls' shows them", &options->names});
  rm.Takes(Option{"-f,--force", "", "The names of used ones, too", &options->force});
  rm.Says(
      "Examples:\n"
      "  atoll image rm python:3.11\n"
      "  atoll image rm --force python:3.11 && atoll image prune   # when its sandboxes are gone");
  rm.Does([options, &settings] { return RemoveImages(settings, options->names, options->force); });
}

}  // namespace

void AddImageVerbs(Verb& root, const Settings& settings) {
  struct ImportOptions {
    ArchivePlace place;
    std::string name;
  };
  Verb& group = root.Add("image", "Build, import, list, name and remove images");
  const auto options = std::make_shared<ImportOptions>();
  group.Add("import", "Import an image archive")
      .Takes(Argument{"FILE", kArchive, &options->place.file})
      .Takes(
          Option{"--name", "NAME[:TAG]", "Name to give it; else the archive's own", &options->name})
      .Takes(EndpointOption(options->place))
      .Says(
          "Examples:\n"
          "  atoll image import python.tar --name python:3.11\n"
          "  skopeo copy docker://alpine oci-archive:alpine.tar && "
          "atoll image import alpine.tar --name alpine")
      .Does([options, &settings]() -> Status {
        ATOLL_TRY(ImportImage(settings, options->place, options->name));
        return {};
      });
  AddBuildVerb(group, settings);
  AddList(group, "ls,list", settings, false);
  const auto names = std::make_shared<Words>();
  group.Add("inspect", "What images hold and how they start, as JSON")
      .Takes(Argument{"IMAGE", "Images as 'atoll image ls' shows them", names.get()})
      .Does([names, &settings] { return InspectImages(settings, *names); });
  AddTag(group, settings, false);
  AddRemove(group, "rm,remove", settings, false);
  AddPrune(group, settings);
  AddVerifyVerb(group, settings);
  AddExportVerb(group, settings, "export", false);
  AddRegistryVerbs(group, settings, false);

  // The same verbs under docker's names.
  AddList(root, "images", settings, true);
  AddTag(root, settings, true);
  AddRemove(root, "rmi", settings, true);
  AddExportVerb(root, settings, "save", true);
  AddRegistryVerbs(root, settings, true);
  root.Add("load", "Import an image archive under its own name")
      .Hidden()
      .Takes(Option{"-i,--input", "FILE", kArchive, &options->place.file})
      .Does([options, &settings]() -> Status {
        if (options->place.file.empty()) options->place.file = "-";
        ATOLL_TRY(ImportImage(settings, options->place, options->name));
        return {};
      });
}

}  // namespace atl::cli
