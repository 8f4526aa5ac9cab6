// atoll volume create|ls|inspect|rm
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/atoll/api.h"
#include "tools/atoll/text.h"
#include "tools/atoll/verbs.h"

namespace atl::cli {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

Status CreateVolume(const Settings& settings, const std::string& name, const std::string& size) {
  json body{{"name", name}};
  if (!size.empty()) body["storage"] = size;
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(
      const http::Response response,
      api.Send("POST", "/volumes", body.dump(-1, ' ', false, json::error_handler_t::replace)));
  std::puts(settings.json ? response.body.c_str() : Printable(name).c_str());
  return {};
}

Status ListVolumes(const Settings& settings, bool quiet) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const http::Response response, api.Send("GET", "/volumes"));
  if (settings.json) {
    std::puts(response.body.c_str());
    return {};
  }
  const auto list = json::parse(response.body, nullptr, false);
  if (!list.is_object()) return Fail(Code::kInternal, "the server's answer is not JSON");
  Table table({"NAME", "CREATED", "USED BY"});
  for (const auto& volume : list.value("items", json::array())) {
    std::string users;
    for (const auto& user : volume.value("usedBy", json::array())) {
      if (user.is_string()) users += (users.empty() ? "" : " ") + user.get<std::string>();
    }
    if (quiet) std::puts(Printable(volume.value("name", "")).c_str());
    table.AddRow({volume.value("name", ""), volume.value("createdAt", "").substr(0, 19), users});
  }
  if (!quiet) std::fputs(table.Text().c_str(), stdout);
  return {};
}

// Each prints what `each` makes of the answer; one that fails does not keep the others.
Status ForVolumes(const Settings& settings, const Names& names, const std::string& method) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  Status first_error;
  for (const std::string& name : names) {
    auto done = api.Send(method, "/volumes/" + PercentEncode(name));
    if (!done) {
      if (!first_error) Report(first_error);
      first_error = Fail(std::move(done).error());
      continue;
    }
    const auto volume = json::parse(done->body, nullptr, false);
    if (method == "GET") {
      std::puts(
          volume.dump(settings.json ? -1 : 2, ' ', true, json::error_handler_t::replace).c_str());
    } else if (!settings.json) {
      std::puts(Printable(name).c_str());
    }
  }
  return first_error;
}

}  // namespace

void AddVolumeVerbs(CLI::App& app, const Settings& settings, int* exit_code) {
  CLI::App* group = app.add_subcommand("volume", "Directories that outlive sandboxes");
  group->require_subcommand(1);

  CLI::App* create = group->add_subcommand("create", "Create an empty volume");
  const auto name = std::make_shared<std::string>();
  create->add_option("NAME", *name, "What claimName calls it")->required();
  const auto size = std::make_shared<std::string>();
  create->add_option("--size", *size, "How much it may hold, as 10Gi; else the server's default");
  create->callback([name, size, &settings, exit_code] {
    *exit_code = Report(CreateVolume(settings, *name, *size));
  });

  CLI::App* ls = group->add_subcommand("ls", "List volumes");
  const auto quiet = std::make_shared<bool>(false);
  ls->add_flag("-q,--quiet", *quiet, "Only names");
  ls->callback(
      [quiet, &settings, exit_code] { *exit_code = Report(ListVolumes(settings, *quiet)); });

  const auto add_many = [&](const char* verb, const char* what, const char* method) {
    CLI::App* sub = group->add_subcommand(verb, what);
    const auto names = std::make_shared<Names>();
    sub->add_option("NAME", *names, "Volumes as 'atoll volume ls' shows them")->required();
    sub->callback([names, method, &settings, exit_code] {
      *exit_code = Report(ForVolumes(settings, *names, method));
    });
  };
  add_many("inspect", "A volume, its users and its size, as JSON", "GET");
  add_many("rm", "Delete volumes that no sandbox uses, with everything in them", "DELETE");
}

}  // namespace atl::cli
