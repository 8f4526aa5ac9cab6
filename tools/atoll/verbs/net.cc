// atoll net: the policy of a sandbox, the addresses of its resolved names, and its denials.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

// Returns "tcp 22,443" for a rule, "tcp 22" for an address.
std::string PortsOf(const json& object, const char* ports) {
  std::string text = TextOf(object, "protocol");
  std::string numbers = TextOf(object, ports);
  std::erase_if(numbers, [](char c) { return c == '[' || c == ']'; });
  if (!text.empty() && !numbers.empty()) text += ' ';
  text += numbers;
  return text.empty() ? "any" : text;
}

void PrintPolicy(const json& network) {
  const json policy = network.value("policy", json());
  if (!policy.is_object()) {
    std::puts("No policy: everything but what the operator guards.");
    return;
  }
  std::printf("Policy, by default %s:\n", Printable(TextOf(policy, "defaultAction")).c_str());
  Table table({"ACTION", "TARGET", "PORTS"});
  for (const json& rule : policy.value("egress", json::array())) {
    table.AddRow({TextOf(rule, "action"), TextOf(rule, "target"), PortsOf(rule, "ports")});
  }
  std::fputs(table.Text().c_str(), stdout);
}

void PrintTraffic(const json& network) {
  const json counters = network.value("counters", json());
  if (!counters.is_object()) return;
  std::printf("\nSent %s in %s packets, received %s in %s packets; denied: %s\n",
              HumanSize(counters.value("bytesOut", uint64_t{0})).c_str(),
              TextOf(counters, "packetsOut").c_str(),
              HumanSize(counters.value("bytesIn", uint64_t{0})).c_str(),
              TextOf(counters, "packetsIn").c_str(), TextOf(counters, "denied").c_str());
}

void PrintLearned(const json& network) {
  const json learned = network.value("learned", json::array());
  if (learned.empty()) return;
  std::puts("\nAddresses that names have opened:");
  Table table({"NAME", "ADDRESS", "PORTS", "FOR"});
  for (const json& one : learned) {
    table.AddRow({TextOf(one, "name"), TextOf(one, "address"), PortsOf(one, "port"),
                  TextOf(one, "expiresInSeconds") + " s"});
  }
  std::fputs(table.Text().c_str(), stdout);
}

void PrintDenials(const json& network) {
  const json denials = network.value("denials", json::array());
  if (denials.empty()) return;
  std::puts("\nDenied lately:");
  Table table({"SINCE", "TIMES", "NAME", "ADDRESS", "PORTS", "REASON"});
  for (const json& denial : denials) {
    table.AddRow({TimeOf(denial, "time"), TextOf(denial, "count"), TextOf(denial, "hostname"),
                  TextOf(denial, "address"), PortsOf(denial, "port"), TextOf(denial, "reason")});
  }
  std::fputs(table.Text().c_str(), stdout);
}

Status Show(const Settings& settings, const std::string& given) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveId(api, given));
  ATOLL_ASSIGN(const json network, Fetch(api, "/sandboxes/" + PercentEncode(id) + "/network"));
  if (settings.json) {
    std::puts(JsonText(network).c_str());
    return {};
  }
  PrintPolicy(network);
  PrintTraffic(network);
  PrintLearned(network);
  PrintDenials(network);
  return {};
}

}  // namespace

void AddNetVerb(Verb& root, const Settings& settings) {
  const auto id = std::make_shared<std::string>();
  root.Add("net", "What a sandbox may reach, and what it was denied")
      .Takes(Argument{"ID", kOneSandbox, id.get()})
      .Does([id, &settings] { return Show(settings, *id); });
}

}  // namespace atl::cli
