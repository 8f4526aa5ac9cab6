// atoll template create|ls|inspect|rm
#include <poll.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "tools/atoll/client/create_body.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/verbs/each.h"
#include "tools/atoll/verbs/image_list.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/columns.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

constexpr int kPhaseMillis = 50;

struct TemplateOptions {
  RunOptions run;
  std::string probe, warm_up, kernel;
  int stock = 1;
  int wait_seconds = 1;
  int timeout_seconds = 60;
  bool detach = false;
  ListStyle style;
  Words ids;
};

std::string StatusText(const json& made, const char* name) {
  return TextOf(made.value("status", json::object()), name);
}

Result<json> BodyOf(const TemplateOptions& options, const json& image) {
  // An image without a program gets one that waits. A template with a kernel does too: the program
  // of an image with kernels is often an interpreter, which ends at once without input.
  const bool waits = !options.kernel.empty() && options.run.command.empty();
  const Words entrypoint = waits ? Words() : CommandOf(options.run, image).value_or(Words());
  ATOLL_ASSIGN(json body, TemplateBody(options.run, entrypoint));
  body["stock"] = options.stock;
  body["readiness"] = {{"timeoutSeconds", options.timeout_seconds}};
  if (!options.probe.empty()) body["readiness"]["probe"] = options.probe;
  // Without a probe only time shows whether a program has started, or has ended again.
  if (!entrypoint.empty() && options.probe.empty() && options.wait_seconds != 0)
    body["readiness"]["warmupSeconds"] = options.wait_seconds;
  if (!options.warm_up.empty()) body["warmup"]["command"] = {"sh", "-c", options.warm_up};
  if (!options.kernel.empty()) body["warmup"]["kernel"] = options.kernel;
  return body;
}

Status CreateTemplate(const Settings& settings, const TemplateOptions& options) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const json image, FindImage(api, options.run.image));
  ATOLL_ASSIGN(const json body, BodyOf(options, image));
  ATOLL_ASSIGN(const http::Response response, api.Send("POST", "/templates", JsonText(body)));
  ATOLL_ASSIGN(json made, ObjectOf(response));
  const std::string id = TextOf(made, "templateId");
  const auto under_way = [&made] {
    const std::string phase = StatusText(made, "phase");
    return phase == "Pending" || phase == "Building";
  };
  while (!options.detach && under_way()) {
    ::poll(nullptr, 0, kPhaseMillis);
    ATOLL_ASSIGN(made, Fetch(api, "/templates/" + PercentEncode(id)));
  }
  if (StatusText(made, "phase") == "Failed") {
    return Fail(Code::kInternal, "template " + id + " is not ready, and is tried again: " +
                                     Printable(StatusText(made, "message")));
  }
  std::puts(settings.json ? JsonText(made).c_str() : Printable(id).c_str());
  return {};
}

Status ListTemplates(const Settings& settings, const ListStyle& style) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const json items, FetchPages(api, "/templates", ""));
  if (settings.json && style.format.empty()) {
    std::puts(JsonText({{"items", items}}).c_str());
    return {};
  }
  Columns columns({"ID", "Name", "Image", "Phase", "Ready", "Stock"});
  for (const json& one : items) {
    columns.Add({TextOf(one, "templateId"), TextOf(one.value("metadata", json::object()), "name"),
                 TextOf(one, "image"), StatusText(one, "phase"), StatusText(one, "ready"),
                 TextOf(one, "stock")});
  }
  return columns.Print(style);
}

}  // namespace

void AddTemplateVerbs(Verb& root, const Settings& settings) {
  const auto options = std::make_shared<TemplateOptions>();
  TemplateOptions* const o = options.get();
  Verb& group = root.Add("template", "Sandboxes that are started ahead");
  Verb& create =
      group.Add("create", "Keep sandboxes started and ready, for creates that name the template");
  create.Takes(Argument{"IMAGE", "Image as 'atoll image ls' shows it", &o->run.image});
  create.TakesCommand(Argument{
      "COMMAND",
      "What each is started with; else the image's, else (and with --kernel) one that waits",
      &o->run.command, false});
  create.Takes(Option{
      "--stock", "N", "How many wait; each that is claimed is replaced", &o->stock, {1, 1024}});
  create.Takes(Option{"--probe", "PROBE",
                      "tcp://127.0.0.1:PORT or cmd://COMMAND: one is ready when that succeeds",
                      &o->probe});
  create.Takes(Option{"--warm-up", "COMMAND", "Run by sh in each that is ready; has to succeed",
                      &o->warm_up});
  create.Takes(
      Option{"--kernel", "LANGUAGE", "Start a kernel of it ahead, for 'atoll code'", &o->kernel});
  create.Takes(Option{"--wait", "DURATION",
                      "Without a probe: a program that has run for so long is ready",
                      &o->wait_seconds, Seconds(0, 600)});
  create.Takes(Option{"--timeout", "DURATION", "After so long, one that is not ready has failed",
                      &o->timeout_seconds, Seconds(1, 600)});
  create.Takes(
      Option{"-e,--env", "NAME=VALUE", "Set a variable; NAME alone passes ours on", &o->run.env});
  create.Takes(Option{"-m,--memory", "LIMIT", "Memory limit of each; else the server's default",
                      &o->run.limits["memory"]});
  create.Takes(Option{"-c,--cpus", "LIMIT", "Processors of each; else the server's default",
                      &o->run.limits["cpu"]});
  create.Takes(Option{"--name", "NAME", "Kept as the template's metadata 'name'", &o->run.name});
  create.Takes(
      Option{"-l,--metadata,--label", "KEY=VALUE", "Metadata of the template", &o->run.labels});
  create.Takes(Option{"-d,--detach", "", "Do not wait until the first is ready", &o->detach});
  create.Says(
      "The id is printed when the first is ready; one that fails says why. A sandbox of it:\n"
      "  atoll run --template ID COMMAND\n\n"
      "Examples:\n"
      "  atoll template create --kernel python kernels\n"
      "  atoll template create --probe tcp://127.0.0.1:8000 python:3.11 python3 -m http.server");
  create.Does([options, &settings] { return CreateTemplate(settings, *options); });
  TakesListStyle(group.Add("ls,list", "List templates"), &o->style, "Only ids",
                 "{{.ID}} {{.Phase}}")
      .Does([options, &settings] { return ListTemplates(settings, options->style); });
  const Argument ids = {"TEMPLATE", "Templates as 'atoll template ls' shows them", &o->ids};
  group.Add("inspect", "A template, and how far it is, as JSON")
      .Takes(ids)
      .Does(
          [options, &settings] { return ForEachOf(settings, "/templates/", options->ids, "GET"); });
  group.Add("rm,remove", "Delete templates, and what waits; sandboxes of them live on")
      .Takes(ids)
      .Does([options, &settings] {
        return ForEachOf(settings, "/templates/", options->ids, "DELETE");
      });
}

}  // namespace atl::cli
