// Templates: sandboxes that are started before they are requested. Paths, members and codes are
// upstream's. The members for stock, warm-up and timeout are Atoll's own.
//
//   POST   /v1/templates        {"image", "publish"?, "resourceLimits"?, "entrypoint"?, "env"?,
//                                "metadata"?, "format"?, "readiness": {"probe"?, "warmupSeconds"?,
//                                "timeoutSeconds"?}?, "warmup": {"command"?, "kernel"?}?,
//                                "stock"?} → 201, phase Pending
//   GET    /v1/templates        ?metadata= &page= &pageSize=
//   GET    /v1/templates/{id}
//   DELETE /v1/templates/{id}   204; its sandboxes live on, its stock is deleted
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/gate/validation.h"
#include "runtime/api/requests/create_request.h"
#include "runtime/api/requests/labels.h"
#include "runtime/api/requests/list_query.h"
#include "runtime/api/routes/api.h"
#include "runtime/api/routes/render.h"

namespace atl::api {
namespace {

// Largest body that describes a template. Its readiness and warm-up are sent to execd in one
// message, which must stay below wire::kMaxPreparation.
constexpr size_t kMaxTemplateBody = 64 << 10;
constexpr int64_t kMaxStock = 1024;
constexpr int64_t kMaxPrepareSeconds = 600;

constexpr const char* kMembers[] = {"image",    "publish", "resourceLimits", "entrypoint", "env",
                                    "metadata", "format",  "readiness",      "warmup",     "stock"};
constexpr const char* kReadinessMembers[] = {"probe", "warmupSeconds", "timeoutSeconds"};
constexpr const char* kWarmUpMembers[] = {"command", "kernel"};
constexpr const char* kLimits[] = {"cpu", "memory", "disk"};

template <size_t N>
bool IsOneOf(const std::string& name, const char* const (&known)[N]) {
  return std::find(std::begin(known), std::end(known), name) != std::end(known);
}

template <size_t N>
void AllowOnly(const Field& object, const char* const (&known)[N]) {
  for (const auto& [name, value] : object.value().items()) {
    if (IsOneOf(name, known)) continue;
    object.At(name).Complain("extra_forbidden", "Extra inputs are not permitted");
  }
}

// Returns true if the field is present and within its bounds.
bool ReadNumber(const Field& field, int64_t least, int64_t most, int64_t* out) {
  if (!field.Integer(out)) return false;
  if (*out >= least && *out <= most) return true;
  field.BreaksRule("use a whole number from " + std::to_string(least) + " to " +
                   std::to_string(most) + ".");
  return false;
}

// Parses "tcp://127.0.0.1:PORT" or "cmd://COMMAND".
bool ParseProbe(std::string_view text, wire::Preparation* out) {
  constexpr std::string_view kCommand = "cmd://", kTcp = "tcp://";
  if (text.starts_with(kCommand)) {
    out->probe_command = text.substr(kCommand.size());
    return out->probe_command.find_first_not_of(" \t\r\n") != std::string::npos &&
           out->probe_command.find('\0') == std::string::npos;
  }
  if (!text.starts_with(kTcp)) return false;
  text.remove_prefix(kTcp.size());
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
  uint16_t number = 0;
  const auto [rest, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  out->probe_port = number;
  return (host == "127.0.0.1" || host == "localhost") && error == std::errc() &&
         rest == port.data() + port.size() && number != 0;
}

void ReadReadiness(const Field& readiness, sandbox::TemplateRecord* out) {
  if (!readiness.IsObject()) return;
  AllowOnly(readiness, kReadinessMembers);
  wire::Preparation& preparation = out->preparation;
  const Field probe = readiness.At("probe");
  if (probe.Word(&out->probe) && !ParseProbe(out->probe, &preparation)) {
    probe.BreaksRule(
        "a probe is tcp://127.0.0.1:PORT or cmd://COMMAND, and is tried inside the sandbox.");
  }
  int64_t seconds = preparation.timeout_seconds;
  if (ReadNumber(readiness.At("timeoutSeconds"), 1, kMaxPrepareSeconds, &seconds)) {
    preparation.timeout_seconds = static_cast<uint32_t>(seconds);
  }
  const Field window = readiness.At("warmupSeconds");
  if (!ReadNumber(window, 0, kMaxPrepareSeconds, &seconds)) return;
  out->warmup_seconds = seconds;
  // The warm-up time replaces a missing probe, as in upstream.
  if (!out->probe.empty()) return;
  preparation.wait_seconds = static_cast<uint32_t>(seconds);
  if (!readiness.At("timeoutSeconds").present()) {
    preparation.timeout_seconds += preparation.wait_seconds;
  } else if (preparation.wait_seconds >= preparation.timeout_seconds) {
    window.BreaksRule("warmupSeconds must be less than timeoutSeconds.");
  }
}

void ReadWarmUp(const Field& warmup, wire::Preparation* out) {
  if (!warmup.IsObject()) return;
  AllowOnly(warmup, kWarmUpMembers);
  const Field command = warmup.At("command");
  if (command.Strings(1, &out->command)) {
    if (out->command[0].empty()) command.BreaksRule("command must name a program.");
    if (out->command.size() > wire::kMaxWarmUpWords) command.BreaksRule("it has too many words.");
  }
  warmup.At("kernel").Word(&out->kernel);
}

// Returns "" if the template is valid, else what is wrong beyond the form.
std::string CheckTemplate(const sandbox::TemplateRecord& record) {
  for (const auto& [name, value] : record.resource_limits) {
    if (!IsOneOf(name, kLimits)) {
      return "resourceLimits '" + name.substr(0, 40) + "': a template has cpu, memory and disk";
    }
  }
  for (const auto& [name, value] : record.env) {
    const auto is_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    const bool named = !name.empty() && std::all_of(name.begin(), name.end(), is_word) &&
                       !(name[0] >= '0' && name[0] <= '9');
    if (!named) {
      return "env '" + name.substr(0, 40) + "': use letters, digits and _, and no digit first";
    }
    if (name == kLifecycleVariable) return "env " + name + " is reserved for the server";
  }
  return {};
}

Parsed<sandbox::TemplateRecord> ParseNewTemplate(const std::string& text) {
  auto parsed = ParseBody(text);
  if (!parsed) return Refuse(std::move(parsed).error());
  Problems problems;
  const Field body(*parsed, Location{"body"}, &problems);
  sandbox::TemplateRecord record;
  if (!body.IsRequiredObject()) return Refuse(problems.ToResponse());
  AllowOnly(body, kMembers);
  const Field image = body.At("image");
  if (!image.present()) image.Missing();
  image.Word(&record.image);
  body.At("publish").Word(&record.publish);
  record.format = "overlaybd";
  const Field format = body.At("format");
  if (format.String(&record.format) && record.format != "native" && record.format != "overlaybd") {
    format.BreaksRule("format is native or overlaybd.");
  }
  body.At("resourceLimits").StringMap(false, &record.resource_limits);
  const Field entrypoint = body.At("entrypoint");
  record.entrypoint = {"tail", "-f", "/dev/null"};
  if (entrypoint.present()) record.entrypoint.clear();
  if (entrypoint.Strings(1, &record.entrypoint) && record.entrypoint[0].empty()) {
    entrypoint.BreaksRule("entrypoint must name a program.");
  }
  body.At("env").StringMap(false, &record.env);
  body.At("metadata").StringMap(false, &record.metadata);
  ReadReadiness(body.At("readiness"), &record);
  ReadWarmUp(body.At("warmup"), &record.preparation);
  int64_t stock = record.stock;
  if (ReadNumber(body.At("stock"), 1, kMaxStock, &stock)) {
    record.stock = static_cast<uint32_t>(stock);
  }
  if (!problems.empty()) return Refuse(problems.ToResponse());
  if (std::string wrong = CheckTemplate(record); !wrong.empty()) {
    return Refuse(400, "SANDBOX::INVALID_PARAMETER", std::move(wrong));
  }
  if (std::string wrong = CheckLabels(record.metadata); !wrong.empty()) {
    return Refuse(400, "SANDBOX::INVALID_METADATA_LABEL", std::move(wrong));
  }
  return record;
}

nlohmann::json TemplateJson(const sandbox::Templates::View& view) {
  const sandbox::TemplateRecord& record = *view.record;
  nlohmann::json out = {{"templateId", record.id},
                        {"image", record.image},
                        {"publish", record.publish},
                        {"format", record.format},
                        {"resourceLimits", record.resource_limits},
                        {"entrypoint", record.entrypoint},
                        {"env", record.env},
                        {"metadata", record.metadata},
                        {"status",
                         {{"phase", sandbox::PhaseName(view.phase)},
                          {"ready", view.ready},
                          {"building", view.building},
                          {"waiting", view.waiting}}},
                        {"stock", record.stock},
                        {"createdAt", FormatTime(record.created_at_ms)},
                        {"updatedAt", FormatTime(record.updated_at_ms)}};
  if (!view.trouble.empty()) out["status"]["message"] = view.trouble;
  if (!record.tenant.empty()) out["tenant"] = record.tenant;
  nlohmann::json readiness = {{"timeoutSeconds", record.preparation.timeout_seconds}};
  if (!record.probe.empty()) readiness["probe"] = record.probe;
  if (record.warmup_seconds) readiness["warmupSeconds"] = *record.warmup_seconds;
  out["readiness"] = std::move(readiness);
  if (!record.preparation.command.empty()) out["warmup"]["command"] = record.preparation.command;
  if (!record.preparation.kernel.empty()) out["warmup"]["kernel"] = record.preparation.kernel;
  return out;
}

ApiError NoSuchTemplate(const std::string& id) {
  return {404, "FSB::TEMPLATE_NOT_FOUND", "template '" + id.substr(0, 64) + "' does not exist"};
}

}  // namespace

void Api::AddTemplateRoutes() {
  router_.Add("POST", "/templates", [this](const Call& call) { CreateTemplate(call); });
  router_.Add("GET", "/templates", [this](const Call& call) { ListTemplates(call); });
  router_.Add("GET", "/templates/{template_id}", [this](const Call& call) {
    const auto found = parts_.sandboxes.templates.Find(call.caller(), call.args[0]);
    if (!found) return call.Respond(NoSuchTemplate(call.args[0]));
    call.Respond(JsonResponse(200, TemplateJson(*found)));
  });
  router_.Add("DELETE", "/templates/{template_id}", [this](const Call& call) {
    sandbox::Templates& templates = parts_.sandboxes.templates;
    if (!templates.Find(call.caller(), call.args[0]))
      return call.Respond(NoSuchTemplate(call.args[0]));
    if (auto removed = templates.Remove(call.caller(), call.args[0]); !removed) {
      return call.Respond(MapError(removed.error(), Doing::kTemplate));
    }
    call.Respond(EmptyResponse(204));
  });
}

void Api::CreateTemplate(const Call& call) {
  call.exchange().ReadBody(kMaxTemplateBody, [this, call](Result<std::string> body) {
    if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
    auto wanted = ParseNewTemplate(*body);
    if (!wanted) return call.Respond(std::move(wanted).error());
    sandbox::Templates& templates = parts_.sandboxes.templates;
    const auto id = templates.Create(call.caller(), *std::move(wanted));
    if (!id) return call.Respond(MapError(id.error(), Doing::kTemplate));
    http::Response response = JsonResponse(201, TemplateJson(*templates.Find(call.caller(), *id)));
    response.headers.Set("Location", "/v1/templates/" + *id);
    call.Respond(std::move(response));
  });
}

void Api::ListTemplates(const Call& call) {
  const auto query = ParseListQuery(call.request().query());
  if (!query) return call.Respond(query.error());
  const sandbox::Templates& templates = parts_.sandboxes.templates;
  std::vector<const sandbox::TemplateRecord*> all = templates.Records(call.caller());
  std::erase_if(all,
                [&query](const auto* record) { return !HasMetadata(record->metadata, *query); });
  const auto page = NewestFirst(std::move(all), *query);
  nlohmann::json items = nlohmann::json::array();
  for (const auto* record : page.items)
    items.push_back(TemplateJson(*templates.Find(call.caller(), record->id)));
  call.Respond(JsonResponse(200, PageJson(std::move(items), page, *query)));
}

}  // namespace atl::api
