// The table of rights: who may use which route. It has a row for every route of the API, of execd
// and of the egress service, and one for all other ports of sandboxes. docs/roles.md is written
// from it.
//
// A route without a row does not exist: the router refuses to start with it.
//
// Thread rule: constant data and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/api/gate/api_error.h"
#include "runtime/tenants/caller.h"
#include "runtime/tenants/identity.h"
#include "runtime/tenants/role.h"

namespace atl::api {

// Ports of a sandbox that Atoll itself serves: execd, and the egress service of the daemon.
inline constexpr int kExecdPort = 44772;
inline constexpr int kEgressPort = 18080;

// The server that answers a route.
enum class Service : uint8_t {
  kApi,     // the daemon
  kExecd,   // port 44772 of a sandbox
  kEgress,  // port 18080 of a sandbox; the daemon answers
  kPort,    // every other port of a sandbox
};

// The objects that a role reaches by a route.
enum class Reach : uint8_t {
  kNone,         // the role may not use the route
  kOwn,          // the caller's tenant's
  kOwnOrReason,  // all tenants' if the request gives a reason, else the caller's tenant's
  kNames,        // all tenants', but names and states only: no contents, env or values of labels
  kAll,          // all tenants'
};

struct Rights {
  Service service;
  std::string_view method;   // "*": every method
  std::string_view pattern;  // see Router::Add; execd and egress: the path at their port
  // Not empty: the row counts for requests with this query parameter. It follows the row of the
  // same route without one.
  std::string_view parameter;
  // The action in the audit log. Empty: a read that is not audited. "content.read" is audited only
  // if the object belongs to another tenant than the caller.
  std::string_view action;
  std::array<Reach, tenants::kRoles.size()> reach;  // the place is the role
  bool open = false;                                // needs no key

  Reach Of(tenants::Role role) const { return reach[static_cast<size_t>(role)]; }
};

// Returns all rows, in the order of docs/roles.md.
std::span<const Rights> AllRights();

// Returns the row of a route of the API; null if there is none.
const Rights* RightsOf(std::string_view method, std::string_view pattern);
// Returns the row that counts for a request with that query: `row`, or its row with a parameter.
const Rights& ForQuery(const Rights& row, std::string_view query);

// Returns the row of a request to a port of a sandbox. `rest` is the target behind the port as
// received, "/command?x". A path that execd or the egress service does not have gets their last
// row.
const Rights& RightsAtPort(int port, std::string_view method, std::string_view rest);

// Returns the pattern of execd's route of a target: "/command/{id}/logs" for "/command/7/logs?x".
// Empty if execd has no such path. `target` is undecoded, as execd gets it. For metrics.
std::string_view ExecdRouteOf(std::string_view target);

// Returns the name of a route: "GET /metrics", "POST /proxy/44772/command", "* /proxy/{port}". Keys
// are narrowed to such names.
std::string RouteName(const Rights& rights);

// Returns whether a role may use the route of that name at all. kNotFound: there is no such route.
Result<bool> MayUse(tenants::Role role, const std::string& route);

// The shortest reason with which an admin enters the sandbox of another tenant.
inline constexpr size_t kMinReason = 8;

// Returns the caller if the identity may use the route, with the reach of its role, else the
// refusal: 403 FORBIDDEN with the role that the route needs. `reason` is the query parameter
// "reason".
Parsed<tenants::Caller> Judge(const Rights& rights, const tenants::Identity& identity,
                              std::string_view reason = {});

}  // namespace atl::api
