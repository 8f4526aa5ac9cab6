#include "runtime/api/requests/hooks_request.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "runtime/base/schedule.h"

namespace atl::api {
namespace {

constexpr char kPreStart[] = "preStart";
constexpr int64_t kUsualSeconds = 60;
constexpr int64_t kMostBefore = 10800;
constexpr int64_t kMostPeriodic = 300;
constexpr size_t kMaxHookName = 64;
constexpr size_t kMostSchedule = 256;
constexpr size_t kMaxPeriodic = wire::kMaxHooks - 1;

// Returns false, and adds a problem, if the object has other members.
bool HasOnly(const Field& object, std::initializer_list<std::string_view> known) {
  bool only = true;
  for (const auto& [name, value] : object.value().items()) {
    if (object.problems_full()) return false;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    object.At(name).Complain("extra_forbidden", "Extra inputs are not permitted");
    only = false;
  }
  return only;
}

bool ReadText(const Field& field, std::string* out) {
  if (!field.present()) {
    field.Missing();
    return false;
  }
  if (!field.String(out)) return false;
  out->erase(0, std::min(out->find_first_not_of(" \t"), out->size()));
  out->erase(out->find_last_not_of(" \t") + 1);
  if (!out->empty()) return true;
  field.BreaksRule("must not be blank.");
  return false;
}

void ReadProgram(const Field& hook, int64_t most, wire::Hook* out) {
  const Field command = hook.At("command");
  if (!command.present()) command.Missing();
  if (command.Strings(1, &out->argv) && out->argv[0].empty()) {
    command.BreaksRule("command must name a program.");
  }
  int64_t seconds = kUsualSeconds;
  const Field timeout = hook.At("timeoutSeconds");
  if (timeout.Integer(&seconds) && (seconds < 1 || seconds > most)) {
    timeout.BreaksRule("timeoutSeconds must be from 1 to " + std::to_string(most) + ".");
  }
  out->timeout_seconds = static_cast<uint32_t>(std::clamp<int64_t>(seconds, 1, most));
}

void ReadPeriodic(const Field& field, std::vector<wire::Hook>* hooks) {
  if (!field.present()) return field.Missing();
  if (!field.IsObject() || !HasOnly(field, {"name", "schedule", "command", "timeoutSeconds"})) {
    return;
  }
  wire::Hook hook;
  ReadProgram(field, kMostPeriodic, &hook);
  const Field name = field.At("name"), schedule = field.At("schedule");
  if (ReadText(name, &hook.name) && hook.name.size() > kMaxHookName) {
    name.BreaksRule("a name has at most " + std::to_string(kMaxHookName) + " bytes.");
  }
  if (std::any_of(hooks->begin(), hooks->end(),
                  [&](const wire::Hook& other) { return other.name == hook.name; })) {
    name.BreaksRule("Periodic lifecycle hook names must be unique");
  }
  if (ReadText(schedule, &hook.schedule)) {
    if (hook.schedule.size() > kMostSchedule) {
      return schedule.BreaksRule("schedule should have at most " + std::to_string(kMostSchedule) +
                                 " characters");
    }
    const auto parsed = Schedule::Parse(hook.schedule);
    if (!parsed) schedule.BreaksRule(parsed.error().message());
  }
  hooks->push_back(std::move(hook));
}

}  // namespace

std::vector<wire::Hook> ReadHooks(const Field& lifecycle) {
  std::vector<wire::Hook> hooks;
  if (!lifecycle.IsObject() || !HasOnly(lifecycle, {kPreStart, "periodic"})) return hooks;
  const Field periodic = lifecycle.At("periodic");
  if (periodic.present() && !periodic.value().is_array()) {
    periodic.Complain("list_type", "Input should be a valid list");
  } else if (periodic.present() && periodic.value().size() > kMaxPeriodic) {
    periodic.BreaksRule("there can be at most " + std::to_string(kMaxPeriodic) + " of them.");
  } else if (periodic.present()) {
    for (size_t i = 0; i < periodic.value().size(); ++i) ReadPeriodic(periodic.Element(i), &hooks);
  }
  const Field before = lifecycle.At(kPreStart);
  if (before.IsObject() && HasOnly(before, {"command", "timeoutSeconds"})) {
    wire::Hook hook;
    hook.name = kPreStart;
    ReadProgram(before, kMostBefore, &hook);
    hooks.insert(hooks.begin(), std::move(hook));
  }
  return hooks;
}

}  // namespace atl::api
