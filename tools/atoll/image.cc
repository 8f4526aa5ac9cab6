// atoll image import|ls|inspect|rm, and docker's load, images, rmi
#include <fcntl.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/base/sys.h"
#include "tools/atoll/api.h"
#include "tools/atoll/columns.h"
#include "tools/atoll/image_list.h"
#include "tools/atoll/interrupt.h"
#include "tools/atoll/json_text.h"
#include "tools/atoll/progress.h"
#include "tools/atoll/sandbox_list.h"
#include "tools/atoll/text.h"
#include "tools/atoll/verbs.h"

namespace atl::cli {
namespace {

struct ListOptions {
  std::string format;
  bool quiet = false, all = false;
};

Status ImportImage(const Settings& settings, const std::string& file, const std::string& name) {
  ATOLL_ASSIGN(const UniqueFd archive, sys::Open(file, O_RDONLY));
  struct stat status {};
  if (fstat(archive.get(), &status) != 0) return FailSys("fstat " + file);
  if (!S_ISREG(status.st_mode)) {
    return Fail(Code::kInvalidArgument,
                file + " is not a regular file; save the archive to one first");
  }
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  const auto size = static_cast<uint64_t>(status.st_size);
  Progress progress("importing " + (name.empty() ? file : name), size);
  http::Client::Call call;
  call.method = "POST";
  call.target = name.empty() ? "/images" : "/images?name=" + PercentEncode(name);
  call.headers.Set("Content-Type", "application/x-tar");
  call.body_fd = archive.get();
  call.body_size = size;
  call.on_progress = [&progress, size](uint64_t sent) {
    progress.Update(sent);
    if (sent == size) progress.Say("unpacking …");
  };
  ATOLL_ASSIGN(call.cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(const http::Response response, api.Send(std::move(call)));
  progress.Clear();
  if (settings.json) {
    std::puts(response.body.c_str());
    return {};
  }
  ATOLL_ASSIGN(const auto image, ObjectOf(response));
  std::printf("imported %s (%s, %s)\n", Printable(image.value("name", name)).c_str(),
              Printable(image.value("digest", "")).c_str(),
              HumanSize(image.value("sizeBytes", uint64_t{0})).c_str());
  return {};
}

Status ListImages(const Settings& settings, const ListOptions& options) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const auto list, Fetch(api, "/images"));
  if (settings.json && options.format.empty()) {
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
                 TextOf(image, "createdAt").substr(0, 19), name.substr(0, colon),
                 colon < name.size() ? name.substr(colon + 1) : ""});
  }
  return columns.Print(options.quiet ? "{{.Name}}" : options.format);
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

void AddList(Verb& parent, const char* name, const Settings& settings, bool hidden) {
  const auto list = std::make_shared<ListOptions>();
  Verb& ls = parent.Add(name, "List images");
  if (hidden) ls.Hidden();
  ls.Takes(Option{"-q,--quiet", "", "Only names", &list->quiet});
  ls.Takes(Option{"-a,--all", "", "As always", &list->all});
  ls.Takes(Option{"--format", "TEMPLATE", "Lines such as '{{.Name}} {{.Size}}', or json",
                  &list->format});
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
  rm.Does([options, &settings] { return RemoveImages(settings, options->names, options->force); });
}

}  // namespace

void AddImageVerbs(Verb& root, const Settings& settings) {
  struct ImportOptions {
    std::string file, name;
  };
  Verb& group = root.Add("image", "Import, list and remove images");
  const auto options = std::make_shared<ImportOptions>();
  group.Add("import", "Import an OCI image archive")
      .Takes(Argument{"FILE", "An OCI archive (tar, plain or gzip)", &options->file})
      .Takes(
          Option{"--name", "NAME[:TAG]", "Name to give it; else the archive's own", &options->name})
      .Says(
          "Examples:\n"
          "  atoll image import python.tar --name python:3.11\n"
          "  skopeo copy docker://alpine oci-archive:alpine.tar && "
          "atoll image import alpine.tar --name alpine")
      .Does([options, &settings] { return ImportImage(settings, options->file, options->name); });
  AddList(group, "ls,list", settings, false);
  const auto names = std::make_shared<Words>();
  group.Add("inspect", "What images hold and how they start, as JSON")
      .Takes(Argument{"IMAGE", "Images as 'atoll image ls' shows them", names.get()})
      .Does([names, &settings] { return InspectImages(settings, *names); });
  AddRemove(group, "rm,remove", settings, false);

  // As docker calls them.
  AddList(root, "images", settings, true);
  AddRemove(root, "rmi", settings, true);
  root.Add("load", "Import an OCI image archive under its own name")
      .Hidden()
      .Takes(Option{"-i,--input", "FILE", "An OCI archive (tar, plain or gzip)", &options->file})
      .Does([options, &settings]() -> Status {
        if (options->file.empty()) {
          return Fail(Code::kInvalidArgument, "-i FILE is missing: archives are read from files");
        }
        return ImportImage(settings, options->file, options->name);
      });
}

}  // namespace atl::cli
