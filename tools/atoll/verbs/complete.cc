#include "tools/atoll/verbs/complete.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/atoll/client/api.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

// Prints a word unless it contains characters special to a shell. Bash inserts it unquoted, and a
// hostile server chooses its names.
void Offer(const std::string& word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.:/@+=,%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) std::puts(word.c_str());
}

// Offers ids, and names, which are easier to recognise.
Status OfferSandboxes(Api& api, const char* behind) {
  ATOLL_ASSIGN(const auto all, FetchSandboxes(api, ""));
  for (const SandboxEntry& sandbox : all) {
    Offer(sandbox.id + behind);
    if (!sandbox.name.empty()) Offer(sandbox.name + behind);
  }
  return {};
}

Status OfferNamed(Api& api, const std::string& route, const char* member = "name") {
  ATOLL_ASSIGN(const auto list, Fetch(api, route));
  for (const auto& item : list.value("items", nlohmann::json::array())) {
    Offer(TextOf(item, member));
  }
  return {};
}

// The verb that the words name, and its next argument. `waiting` is an option whose value comes
// next.
struct Place {
  const Verb* verb;
  size_t argument = 0;
  const Option* waiting = nullptr;
};

Place PlaceOf(const Verb& root, const Words& words) {
  Place place{&root};
  for (const std::string& word : words) {
    if (place.waiting != nullptr) {
      place.waiting = nullptr;
    } else if (word.size() > 1 && word.front() == '-') {
      const Option* const option = place.verb->FindOption(word);
      if (option != nullptr && !option->value.empty()) place.waiting = option;
    } else if (const Verb* const next = place.verb->Find(word); next != nullptr) {
      place.verb = next;
    } else {
      ++place.argument;
    }
  }
  return place;
}

}  // namespace

Status Complete(const Verb& root, const Settings& settings, const Words& words) {
  const Place place = PlaceOf(root, words);
  const Verb& verb = *place.verb;
  if (place.waiting != nullptr) {
    if (place.waiting->value != "SOURCE:PATH[:ro]") return {};
    ATOLL_ASSIGN(Api api, Api::Connect(settings));
    return OfferNamed(api, "/volumes");
  }
  for (const Verb& one : verb.verbs()) {
    if (!one.hidden()) Offer(one.name());
  }
  if (!verb.verbs().empty()) return {};
  const auto& arguments = verb.arguments();
  const bool list = !arguments.empty() && std::holds_alternative<Words*>(arguments.back().target);
  const bool behind = place.argument >= arguments.size();
  // Words of a command are not completed: its own options apply.
  if (verb.has_command() && place.argument + 1 >= arguments.size()) return {};
  for (const Option& option : verb.options()) Offer(option.AllNames().back());
  if (arguments.empty() || (behind && !list)) return {};
  const std::string& name = arguments[behind ? arguments.size() - 1 : place.argument].name;
  if (name == "VERB") {
    for (const Verb& one : root.verbs()) {
      if (!one.hidden()) Offer(one.name());
    }
    return {};
  }
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  if (name == "IMAGE") return OfferNamed(api, "/images");
  if (name == "SNAPSHOT") return OfferNamed(api, "/snapshots", "id");
  if (name == "POOL") return OfferNamed(api, "/pools");
  if (name == "TEMPLATE") return OfferNamed(api, "/templates?pageSize=200", "templateId");
  if (name == "VOLUME") return OfferNamed(api, "/volumes");
  if (name == "TENANT") return OfferNamed(api, "/tenants");
  if (name == "KEY") return OfferNamed(api, "/keys", "id");
  if (name == "ID") return OfferSandboxes(api, "");
  if (name == "FROM" || name == "TO") return OfferSandboxes(api, ":");
  return {};
}

}  // namespace atl::cli
