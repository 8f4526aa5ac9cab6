// Measures the cost of a network policy for the client that sets it, for a create, and for traffic.
#include <nlohmann/json.hpp>

#include "bench/clock.h"
#include "bench/fill.h"
#include "bench/host_view.h"
#include "bench/lab.h"
#include "bench/traffic_lab.h"

namespace atl::bench {
namespace {

constexpr int kFew = 10, kMost = 4096, kEach = 50, kMany = 1000;
constexpr int kCount = 60, kRounds = 9;
constexpr uint64_t kTransfer = uint64_t{512} << 20;
constexpr int kLooks = 100, kLookMs = 20;

// Access to a sandbox's policy API.
struct PolicyApi {
  std::string path;     // path of /policy
  std::string headers;  // header with its token
};

struct NetworkLab : Lab {
  pid_t open = -1,
        policed = -1;  // process 1 of a sandbox without a policy, and of one with a policy
  PolicyApi policy;    // policy API of the second sandbox
  int turn = 0;
};
using LabPtr = std::shared_ptr<NetworkLab>;

// Returns the one lab for both sets of programs, because it changes this process's network.
Result<TrafficLab*> TheTraffic() {
  static auto traffic = TrafficLab::Start();
  if (!traffic) return Fail(traffic.error());
  return traffic->get();
}

// Returns a policy of `rules` rules, half names, half prefixes. One of them is the server, the only
// rule that two variants share.
std::string PolicyJson(int rules, int variant = 0) {
  std::string text = R"({"defaultAction":"deny","egress":[{"action":"allow","target":")" +
                     std::string(kServerAddress) + "\"}";
  for (int i = 1; i < rules; ++i) {
    const std::string target =
        i % 2 == 0 ? "host" + std::to_string(i) + ".example" + std::to_string(variant) + ".com"
                   : "198." + std::to_string(18 + variant) + "." + std::to_string(i / 256) + "." +
                         std::to_string(i % 256) + "/32";
    text += R"(,{"action":"allow","target":")" + target + "\"}";
  }
  return text + "]}";
}

std::string PolicyMember(int rules) {
  return ",\"networkPolicy\":" + PolicyJson(rules);
}

Result<PolicyApi> FindPolicyApi(LeanClient& client, const std::string& sandbox) {
  ATOLL_ASSIGN(const std::string text,
               client.Call("GET", "/v1/sandboxes/" + sandbox + "/endpoints/18080"));
  const auto answer = nlohmann::json::parse(text, nullptr, false);
  const std::string endpoint = answer.is_object() ? answer.value("endpoint", "") : "";
  const size_t slash = endpoint.find('/');
  if (slash == std::string::npos || !answer.contains("headers")) {
    return Fail(Code::kInternal, "endpoint of a policy: " + text);
  }
  PolicyApi api{endpoint.substr(slash), ""};
  for (const auto& [name, value] : answer["headers"].items()) {
    api.headers += name + ": " + value.get<std::string>() + "\r\n";
  }
  return api;
}

// Returns process 1 of the sandbox that runs beside `other`. It is a child of the spawner, but a
// single read of /proc may miss it.
Result<pid_t> FindProcess(const OwnDaemon& daemon, pid_t other) {
  for (int look = 0; look < kLooks; ++look) {
    if (look > 0) Rest(kLookMs);
    ATOLL_ASSIGN(const auto places, FindSandboxes(daemon.spawner(), daemon.data_dir()));
    for (const Place& place : places) {
      if (place.pid != other) return place.pid;
    }
  }
  return Fail(Code::kInternal, "a sandbox without a process");
}

Status Open(NetworkLab& lab, const Setting& setting) {
  ATOLL_TRY(TheTraffic());
  ATOLL_TRY(lab.Open(setting));
  ATOLL_TRY(lab.api->Create(kBusyboxImage));
  ATOLL_ASSIGN(lab.open, FindProcess(*lab.daemon, -1));
  ATOLL_ASSIGN(const Sandbox policed, lab.api->Create(kBusyboxImage, "{}", PolicyMember(kFew)));
  ATOLL_ASSIGN(lab.policed, FindProcess(*lab.daemon, lab.open));
  ATOLL_ASSIGN(lab.policy, FindPolicyApi(*lab.client, policed.id));
  return lab.api->AwaitQuiet();
}

void AddFlows(const LabPtr& lab, Phases* phases) {
  using Direction = TrafficLab::Direction;
  struct From {
    const char* name;
    pid_t NetworkLab::*process;  // null: the plain sender
    double least;
  };
  constexpr From kFrom[] = {{"without rules", nullptr, 0},
                            {"no policy", &NetworkLab::open, 0},
                            {"allowed by address", &NetworkLab::policed, 0.9}};
  for (const Direction way : {Direction::kUp, Direction::kDown}) {
    const std::string flow = way == Direction::kUp ? "flow up, " : "flow down, ";
    for (const From& from : kFrom) {
      const std::string name = flow + from.name;
      std::vector<Bound> bounds;
      if (from.least > 0) {
        bounds = {{.at_least = from.least, .over = "network/" + flow + kFrom[0].name}};
      }
      phases->push_back(
          {.series = {{name, "512 MiB over a new connection", "GB/s", bounds}},
           .samples = kRounds,
           .turns = "flows",
           .host = from.process == nullptr,
           .run = [=](Take& take) -> Status {
             ATOLL_ASSIGN(TrafficLab* const traffic, TheTraffic());
             ATOLL_ASSIGN(const double bytes,
                          from.process ? traffic->FromProcess((*lab).*from.process, way, kTransfer)
                                       : traffic->FromPlain(way, kTransfer));
             take.Add(name, bytes / 1e9);
             return {};
           }});
    }
  }
}

// Sets another policy with each PUT. An empty request to the same API comes before it.
Phase ApplyPhase(const LabPtr& lab, const std::string& what, int samples, double bound,
                 const std::string& even, const std::string& odd) {
  const std::string name = "apply " + what, empty = name + ": empty request";
  return {.series = {{name,
                      "`PUT …/policy` → answered, to hold less the empty request",
                      "ms",
                      {{.at_most = bound, .less = "network/" + empty}}},
                     {empty, "`GET …/healthz` of the same API", "ms", {}}},
          .samples = samples,
          .run = [=](Take& take) -> Status {
            LeanClient& client = *lab->client;
            const PolicyApi& policy = lab->policy;
            Rest(kRestMs);
            int64_t start = NowMicros();
            ATOLL_TRY(client.Call("GET", policy.path + "/healthz", "", policy.headers));
            const int64_t round_trip = MicrosSince(start);
            Rest(kRestMs);
            start = NowMicros();
            ATOLL_TRY(client.Call("PUT", policy.path + "/policy", lab->turn++ % 2 == 0 ? even : odd,
                                  policy.headers));
            take.AddMs(name, MicrosSince(start));
            take.AddMs(empty, round_trip);
            return {};
          }};
}

Phase CreatePhase(const LabPtr& lab, const std::string& among, int rules,
                  std::vector<Bound> bounds) {
  const std::string policy = rules > 0 ? PolicyMember(rules) : "";
  const std::string name =
      "create" + among + (rules > 0 ? ", " + std::to_string(rules) + " rules" : ", no policy");
  return {.series = {{name, "request → answer", "ms", std::move(bounds)}},
          .samples = kCount,
          .rest_ms = kRestMs,
          .turns = "create" + among,
          .run = [=](Take& take) -> Status {
            const int64_t start = NowMicros();
            ATOLL_ASSIGN(const Sandbox sandbox, lab->api->Create(kBusyboxImage, "{}", policy));
            take.AddMs(name, MicrosSince(start));
            Rest(kRestMs);
            return lab->api->Delete(sandbox);
          }};
}

// Creates sandboxes, each with a policy, until there are `total` more.
Phase FillPhase(const LabPtr& lab, int total) {
  return {.run = [=](Take&) -> Status {
    ATOLL_TRY(Fill(*lab->daemon, total, PolicyMember(kEach)));
    return lab->api->AwaitQuiet();
  }};
}

}  // namespace

Phases NetworkPhases(const Setting& setting) {
  const auto lab = std::make_shared<NetworkLab>();
  Phases phases = {{.run = [=](Take&) { return Open(*lab, setting); }}};
  AddFlows(lab, &phases);
  phases.insert(
      phases.end(),
      {ApplyPhase(lab, "10 other rules", kCount, 1, PolicyJson(kFew), PolicyJson(kFew, 1)),
       ApplyPhase(lab, "4096 other rules", kCount / 2, 20, PolicyJson(kMost), PolicyJson(kMost, 1)),
       ApplyPhase(lab, "4096 rules, one new", kCount / 2, 20, PolicyJson(kMost),
                  PolicyJson(kMost - 1)),
       CreatePhase(lab, "", 0, {}),
       CreatePhase(lab, "", kFew, {{.at_most = 0.3, .less = "network/create, no policy"}}),
       FillPhase(lab, kFew), CreatePhase(lab, " among 10", 0, {}),
       CreatePhase(lab, " among 10", kEach, {}), FillPhase(lab, kMany - kFew),
       CreatePhase(lab, " among 1000", 0, {}),
       CreatePhase(lab, " among 1000", kEach,
                   {{.at_most = 1.3, .over = "network/create among 10, 50 rules"}})});
  return phases;
}

}  // namespace atl::bench
