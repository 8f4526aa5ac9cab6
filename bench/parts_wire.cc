// Measures the messages of one create: the plan and the start message to the spawner, and the reply
// of the build.
#include "bench/parts.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/wire/plan.h"
#include "runtime/wire/spawner.h"
#include "runtime/wire/start.h"

namespace atl::bench {
namespace {

wire::Plan PlanOf(uint32_t layers) {
  wire::Plan plan;
  plan.id = NewSandboxId();
  plan.slot = 7;
  for (uint32_t i = 0; i < layers; ++i) plan.layers.push_back(i + 1);
  plan.hostname = "d3954f87323e";
  plan.hosts = "127.0.0.1 localhost\n::1 localhost\n10.200.0.7 d3954f87323e\n";
  plan.resolv_conf = "nameserver 10.200.255.254\n";
  plan.limits = {512ULL << 20, 0, 512, 1000, 0, 0, 0, 0};
  return plan;
}

wire::StartMessage Start() {
  wire::StartMessage start;
  start.sandbox_id = NewSandboxId();
  start.argv = {"python3", "-m", "http.server"};
  for (int i = 0; i < 20; ++i) start.env.push_back("NAME" + std::to_string(i) + "=a value of it");
  start.access_token = std::string(43, 'x');
  return start;
}

// Drops the value of a result and keeps its error.
template <typename T>
Status Done(const Result<T>& result) {
  if (!result) return Fail(result.error());
  return {};
}

}  // namespace

void AddWireParts(Phases* phases) {
  constexpr int kSamples = 50, kTimes = 1000;
  for (const uint32_t layers : {1U, 12U, 128U}) {
    const std::string how = ", " + std::to_string(layers) + (layers == 1 ? " layer" : " layers");
    phases->push_back(
        Part("build request" + how, "written and read", kSamples, kTimes, [plan = PlanOf(layers)] {
          const wire::Request request{7, wire::Build{plan}};
          return Done(wire::DecodeRequest(wire::EncodeFields(request)));
        }));
  }
  phases->push_back(
      Part("start message", "with 20 variables, written and read", kSamples, kTimes,
           [start = Start()] { return Done(wire::DecodeStartMessage(start.Encode())); }));
  phases->push_back(Part("reply of a build", "written and read", kSamples, kTimes, [] {
    const wire::Reply reply{1, wire::Built{.pid = 4711}};
    return Done(wire::DecodeReply(wire::EncodeFields(reply)));
  }));
}

}  // namespace atl::bench
