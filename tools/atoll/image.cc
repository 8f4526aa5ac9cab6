// atoll image import|ls|rm
#include <fcntl.h>
#include <sys/stat.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/base/sys.h"
#include "tools/atoll/api.h"
#include "tools/atoll/interrupt.h"
#include "tools/atoll/progress.h"
#include "tools/atoll/text.h"
#include "tools/atoll/verbs.h"

namespace atl::cli {
namespace {

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
  Progress progress("importing " + name, size);
  http::Client::Call call;
  call.method = "POST";
  call.target = "/images?name=" + PercentEncode(name);
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
  const auto image = nlohmann::json::parse(response.body, nullptr, false);
  if (!image.is_object()) return Fail(Code::kInternal, "the server's answer is not JSON");
  std::printf("imported %s (%s, %s)\n", Printable(image.value("name", name)).c_str(),
              Printable(image.value("digest", "")).c_str(),
              HumanSize(image.value("sizeBytes", uint64_t{0})).c_str());
  return {};
}

Status ListImages(const Settings& settings) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const http::Response response, api.Send("GET", "/images"));
  if (settings.json) {
    std::puts(response.body.c_str());
    return {};
  }
  const auto list = nlohmann::json::parse(response.body, nullptr, false);
  if (!list.is_object()) return Fail(Code::kInternal, "the server's answer is not JSON");
  Table table({"NAME", "DIGEST", "SIZE", "LAYERS", "IMPORTED"});
  for (const auto& image : list.value("items", nlohmann::json::array())) {
    table.AddRow({image.value("name", ""), image.value("digest", "").substr(0, 19),
                  HumanSize(image.value("sizeBytes", uint64_t{0})),
                  std::to_string(image.value("layers", 0)),
                  image.value("createdAt", "").substr(0, 19)});
  }
  std::fputs(table.Text().c_str(), stdout);
  return {};
}

Status RemoveImages(const Settings& settings, const std::vector<std::string>& names) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  for (const std::string& name : names) {
    ATOLL_TRY(api.Send("DELETE", "/images/" + PercentEncode(name)));
    if (!settings.json) std::printf("removed %s\n", name.c_str());
  }
  return {};
}

}  // namespace

void AddImageVerbs(CLI::App& app, const Settings& settings, int* exit_code) {
  CLI::App* group = app.add_subcommand("image", "Import, list and remove images");
  group->require_subcommand(1);

  CLI::App* import = group->add_subcommand("import", "Import an OCI image archive");
  struct ImportOptions {
    std::string file;
    std::string name;
  };
  const auto options = std::make_shared<ImportOptions>();
  import->add_option("FILE", options->file, "An OCI archive (tar, plain or gzip)")->required();
  import->add_option("--name", options->name, "NAME[:TAG] to give it; the tag defaults to latest")
      ->required();
  import->footer(
      "Examples:\n"
      "  atoll image import python.tar --name python:3.11\n"
      "  skopeo copy docker://alpine oci-archive:alpine.tar && "
      "atoll image import alpine.tar --name alpine");
  import->callback([options, &settings, exit_code] {
    *exit_code = Report(ImportImage(settings, options->file, options->name));
});

CLI::App* ls = group->add_subcommand("ls", "List images");
ls->callback([&settings, exit_code] { *exit_code = Report(ListImages(settings)); });

CLI::App* rm = group->add_subcommand("rm", "Remove images that no sandbox uses");
const auto names = std::make_shared<std::vector<std::string>>();
rm->add_option("NAME", *names, "Images as 'atoll image ls' shows them")->required();
rm->callback([names, &settings, exit_code] {
  *exit_code = Report(RemoveImages(settings, *names));
});
}  // namespace atl::cli

}  // namespace atl::cli
