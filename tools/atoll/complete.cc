// atoll complete: what the completion scripts ask.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/atoll/api.h"
#include "tools/atoll/sandbox_list.h"
#include "tools/atoll/text.h"
#include "tools/atoll/verbs.h"

namespace atl::cli {
namespace {

// What stands for a verb's argument, after its kind.
const std::set<std::string> kTakesId = {"exec",     "rm",   "inspect", "pause", "resume", "renew",
                                        "endpoint", "logs", "stats",   "cp",    "net"};

void Offer(const std::string& word) {
  if (!word.empty()) std::puts(Printable(word).c_str());
}

// Ids, and the names by which sandboxes are easier to tell.
Status OfferSandboxes(Api& api, bool as_path) {
  ATOLL_ASSIGN(const auto all, FetchSandboxes(api, ""));
  for (const SandboxEntry& sandbox : all) {
    Offer(as_path ? sandbox.id + ":" : sandbox.id);
    if (!sandbox.name.empty()) Offer(as_path ? sandbox.name + ":" : sandbox.name);
  }
  return {};
}

Status OfferNamed(Api& api, const std::string& route) {
  ATOLL_ASSIGN(const http::Response response, api.Send("GET", route));
  const auto list = nlohmann::json::parse(response.body, nullptr, false);
  if (!list.is_object()) return Fail(Code::kInternal, "the server's answer is not JSON");
  for (const auto& item : list.value("items", nlohmann::json::array())) {
    Offer(item.value("name", ""));
  }
  return {};
}

// The verb, or the verb of a group, that the words have reached.
const CLI::App* Reached(const CLI::App& app, const Words& words) {
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    for (const CLI::App* sub : at->get_subcommands(nullptr)) {
      if (sub->check_name(word)) {
        at = sub;
        break;
      }
    }
  }
  return at;
}

Status Complete(const CLI::App& app, const Settings& settings, const Words& words) {
  const CLI::App* at = Reached(app, words);
  const auto subs = at->get_subcommands(nullptr);
  for (const CLI::App* sub : subs) {
    if (!sub->get_group().empty()) Offer(sub->get_name());
  }
  if (!subs.empty()) return {};
  for (const CLI::Option* option : at->get_options()) {
    for (const std::string& name : option->get_lnames()) Offer("--" + name);
  }
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  const std::string parent = at->get_parent()->get_name();
  if (parent == "image" && at->get_name() == "rm") return OfferNamed(api, "/images");
  if (parent == "volume" && at->get_name() != "create") return OfferNamed(api, "/volumes");
  if (at->get_name() == "run") return OfferNamed(api, "/images");
  if (parent != app.get_name() || !kTakesId.contains(at->get_name())) return {};
  return OfferSandboxes(api, at->get_name() == "cp");
}

}  // namespace

void AddCompleteVerb(CLI::App& app, const Settings& settings, const Words& words, int* exit_code) {
  // Without a group it is in no help.
  CLI::App* complete = app.add_subcommand("complete", "What may follow the words after --");
  complete->group("");
  complete->callback([&app, &settings, &words, exit_code] {
    *exit_code = Report(Complete(app, settings, words));
  });
}

}  // namespace atl::cli
