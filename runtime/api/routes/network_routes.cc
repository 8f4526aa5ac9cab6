// GET, PUT, PATCH and DELETE /v1/sandboxes/{id}/networkpolicy give the same answers as port 18080
// of the sandbox, but require the API key instead of the sandbox's token. An extension of the
// OpenSandbox API:
//
//   GET /v1/sandboxes/{id}/network   the policy, the addresses of resolved names, the traffic, and
//                                    the recent denials
#include <nlohmann/json.hpp>

#include <cerrno>

#include "netpolicy/policy/policy_json.h"
#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/ingress/egress_api.h"
#include "runtime/api/routes/api.h"
#include "runtime/api/routes/render.h"
#include "runtime/base/json_text.h"

namespace atl::api {
namespace {

using nlohmann::json;

json LearnedJson(const std::vector<netpolicy::LearnedName>& learned) {
  json items = json::array();
  for (const netpolicy::LearnedName& one : learned) {
    json item{{"address", one.address}, {"expiresInSeconds", one.expires_in_seconds}};
    if (!one.name.empty()) item["name"] = one.name;
    if (!one.protocol.empty()) item["protocol"] = one.protocol;
    if (one.port != 0) item["port"] = one.port;
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace

void Api::AddNetworkRoutes() {
  router_.Add("GET", "/sandboxes/{sandbox_id}/network",
              [this](const Call& call) { GetNetwork(call); });
  for (const char* method : {"GET", "PUT", "PATCH", "DELETE"}) {
    router_.Add(method, "/sandboxes/{sandbox_id}/networkpolicy", [this](const Call& call) {
      const sandbox::Sandbox* found = parts_.sandboxes.registry.Find(call.caller(), call.args[0]);
      if (found == nullptr) return call.Respond(NoSuchSandbox(call.args[0]));
      if (found->state != sandbox::State::kRunning) return call.Respond(NotRunning(*found));
      ServePolicy(call, parts_.sandboxes, parts_.network, found->id);
    });
  }
}

void Api::GetNetwork(const Call& call) {
  const sandbox::Sandbox* found = parts_.sandboxes.registry.Find(call.caller(), call.args[0]);
  if (found == nullptr) return call.Respond(NoSuchSandbox(call.args[0]));
  netpolicy::Network& network = parts_.network;
  json body{{"policy", nullptr}, {"learned", json::array()}, {"denials", json::array()}};
  if (found->spec.network.policy) {
    body["policy"] = JsonOrNull(netpolicy::PolicyToJson(*found->spec.network.policy));
  }
  if (!found->spec.network.network.empty()) {
    body["network"] = {
        {"name", found->spec.network.network},
        {"hostname",
         found->spec.network.hostname.empty() ? found->id : found->spec.network.hostname}};
  }
  if (found->spec.network.bytes_per_second != 0) {
    body["bitsPerSecond"] = found->spec.network.bytes_per_second * 8;
  }
  body["mode"] =
      found->spec.network.policy ? netpolicy::ModeOf(*found->spec.network.policy) : "allow_all";
  if (found->slot != 0) {
    const auto counters = network.CountersOf(found->slot);
    // The kernel removes the link of a sandbox that has ended, and the slot is given back later.
    const bool gone = !counters && counters.error().error_number() == ENODEV;
    if (!counters && !gone) return call.Respond(MapError(counters.error(), Doing::kFind));
    body["addresses"] = parts_.sandboxes.registry.AddressesOf(*found);
    if (counters) {
      body["counters"] = {{"bytesIn", counters->bytes_in},
                          {"bytesOut", counters->bytes_out},
                          {"packetsIn", counters->packets_in},
                          {"packetsOut", counters->packets_out},
                          {"denied", counters->denied}};
    }
    body["learned"] = LearnedJson(network.LearnedBy(found->slot));
    body["denials"] = DenialsJson(network.DenialsOf(found->slot));
  }
  call.Respond(JsonResponse(200, body));
}

}  // namespace atl::api
