#include "runtime/api/gate/rights.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/api/gate/json.h"
#include "runtime/api/gate/path_pattern.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

using Reaches = std::array<Reach, tenants::kRoles.size()>;

namespace row {
// Columns: viewer, developer, operator, auditor, admin.
constexpr Reaches kEverybody = {Reach::kOwn, Reach::kOwn, Reach::kOwn, Reach::kOwn, Reach::kOwn};
constexpr Reaches kAdminOnly = {Reach::kNone, Reach::kNone, Reach::kNone, Reach::kNone,
                                Reach::kAll};
constexpr Reaches kOperate = {Reach::kNone, Reach::kNone, Reach::kAll, Reach::kNone, Reach::kAll};
// Objects: that they are there, what they own, and how their state changes.
constexpr Reaches kView = {Reach::kOwn, Reach::kOwn, Reach::kAll, Reach::kNames, Reach::kAll};
constexpr Reaches kOwner = {Reach::kNone, Reach::kOwn, Reach::kNone, Reach::kNone, Reach::kAll};
constexpr Reaches kSteer = {Reach::kNone, Reach::kOwn, Reach::kAll, Reach::kNone, Reach::kAll};
// Contents: what sandboxes have written or hold, as the API shows it.
constexpr Reaches kContents = {Reach::kOwn, Reach::kOwn, Reach::kNone, Reach::kNone, Reach::kAll};
// Sandboxes that are gone.
constexpr Reaches kPast = {Reach::kOwn, Reach::kOwn, Reach::kNames, Reach::kNone, Reach::kAll};
// The inside of a sandbox.
constexpr Reaches kInside = {Reach::kNone, Reach::kOwn, Reach::kNone, Reach::kNone,
                             Reach::kOwnOrReason};
constexpr Reaches kMetrics = {Reach::kOwn, Reach::kOwn, Reach::kAll, Reach::kNone, Reach::kAll};
// Developers read the events of their tenant.
constexpr Reaches kAudit = {Reach::kNone, Reach::kOwn, Reach::kNone, Reach::kAll, Reach::kAll};
// The head tells how busy the whole host is, and the HMAC of a text finds it in lines of all.
constexpr Reaches kAuditHost = {Reach::kNone, Reach::kNone, Reach::kNone, Reach::kAll, Reach::kAll};
constexpr Reaches kUsage = {Reach::kOwn, Reach::kOwn, Reach::kAll, Reach::kAll, Reach::kAll};
// Events are texts, and quote what sandboxes print.
constexpr Reaches kEventStream = {Reach::kOwn, Reach::kOwn, Reach::kAll, Reach::kNone, Reach::kAll};
constexpr Reaches kRoster = {Reach::kOwn, Reach::kOwn, Reach::kAll, Reach::kAll, Reach::kAll};
constexpr Reaches kKeyView = {Reach::kNone, Reach::kOwn, Reach::kNone, Reach::kAll, Reach::kAll};
constexpr Reaches kKeyChange = {Reach::kNone, Reach::kOwn, Reach::kNone, Reach::kNone, Reach::kAll};
constexpr Reaches kHostKeyView = {Reach::kNone, Reach::kNone, Reach::kNone, Reach::kAll,
                                  Reach::kAll};
}  // namespace row

// clang-format off
constexpr Rights kRights[] = {
    {Service::kApi, "GET", "/health", "", "", row::kEverybody, true},
    {Service::kApi, "GET", "/version", "", "", row::kEverybody, true},
    {Service::kApi, "GET", "/openapi.json", "", "", row::kEverybody, true},
    {Service::kApi, "GET", "/whoami", "", "", row::kEverybody},
    {Service::kApi, "GET", "/tenants", "", "", row::kRoster},
    {Service::kApi, "GET", "/tenants/{tenant}", "", "", row::kRoster},
    {Service::kApi, "POST", "/tenants/check", "", "tenant.check", row::kAdminOnly},
    {Service::kApi, "GET", "/tenants/{tenant}/keys", "", "", row::kKeyView},
    {Service::kApi, "POST", "/tenants/{tenant}/keys", "", "key.create", row::kKeyChange},
    {Service::kApi, "DELETE", "/tenants/{tenant}/keys/{key_id}", "", "key.revoke", row::kKeyChange},
    {Service::kApi, "POST", "/tenants/{tenant}/keys/{key_id}/rotate", "", "key.rotate", row::kKeyChange},
    {Service::kApi, "GET", "/keys", "", "", row::kHostKeyView},
    {Service::kApi, "POST", "/keys", "", "key.create", row::kAdminOnly},
    {Service::kApi, "DELETE", "/keys/{key_id}", "", "key.revoke", row::kAdminOnly},
    {Service::kApi, "POST", "/keys/{key_id}/rotate", "", "key.rotate", row::kAdminOnly},
    {Service::kApi, "POST", "/metrics/events", "", "", row::kEverybody},
    {Service::kApi, "GET", "/metrics", "", "", row::kMetrics},
    {Service::kApi, "GET", "/backup", "", "daemon.backup", row::kAdminOnly},
    {Service::kApi, "POST", "/shutdown", "", "daemon.shutdown", row::kAdminOnly},
    {Service::kApi, "GET", "/events", "", "", row::kEventStream},
    {Service::kApi, "GET", "/usage", "", "", row::kUsage},
    {Service::kApi, "POST", "/sandboxes", "", "sandbox.create", row::kOwner},
    {Service::kApi, "GET", "/sandboxes", "", "", row::kView},
    {Service::kApi, "GET", "/sandboxes/{sandbox_id}", "", "", row::kView},
    {Service::kApi, "DELETE", "/sandboxes/{sandbox_id}", "", "sandbox.delete", row::kSteer},
    {Service::kApi, "POST", "/sandboxes/{sandbox_id}/pause", "", "sandbox.pause", row::kSteer},
    {Service::kApi, "POST", "/sandboxes/{sandbox_id}/resume", "", "sandbox.resume", row::kSteer},
    {Service::kApi, "POST", "/sandboxes/{sandbox_id}/renew-expiration", "", "sandbox.renew", row::kSteer},
    {Service::kApi, "PATCH", "/sandboxes/{sandbox_id}/metadata", "", "sandbox.label", row::kOwner},
    {Service::kApi, "POST", "/sandboxes/{sandbox_id}/fork", "", "sandbox.fork", row::kOwner},
    {Service::kApi, "POST", "/sandboxes/{sandbox_id}/rollback", "", "sandbox.rollback", row::kOwner},
    {Service::kApi, "POST", "/sandboxes/{sandbox_id}/snapshots", "", "snapshot.create", row::kOwner},
    {Service::kApi, "GET", "/sandboxes/{sandbox_id}/endpoints/{port}", "", "endpoint.issue", row::kOwner},
    {Service::kApi, "GET", "/sandboxes/{sandbox_id}/diff", "", "content.read", row::kOwner},
    {Service::kApi, "GET", "/sandboxes/{sandbox_id}/disk", "", "", row::kView},
    {Service::kApi, "GET", "/sandboxes/{sandbox_id}/diagnostics/logs", "", "content.read", row::kContents},
    {Service::kApi, "GET", "/sandboxes/{sandbox_id}/diagnostics/inspect", "", "content.read", row::kContents},
    {Service::kApi, "GET", "/sandboxes/{sandbox_id}/diagnostics/summary", "", "content.read", row::kContents},
    {Service::kApi, "GET", "/sandboxes/{sandbox_id}/diagnostics/events", "", "", row::kEventStream},
    {Service::kApi, "GET", "/sandboxes/{sandbox_id}/network", "", "", row::kView},
    {Service::kApi, "GET", "/sandboxes/{sandbox_id}/networkpolicy", "", "", row::kView},
    {Service::kApi, "PUT", "/sandboxes/{sandbox_id}/networkpolicy", "", "policy.change", row::kOwner},
    {Service::kApi, "PATCH", "/sandboxes/{sandbox_id}/networkpolicy", "", "policy.change", row::kOwner},
    {Service::kApi, "DELETE", "/sandboxes/{sandbox_id}/networkpolicy", "", "policy.change", row::kOwner},
    {Service::kApi, "GET", "/images", "", "", row::kView},
    {Service::kApi, "GET", "/images/{name:path}", "", "", row::kView},
    {Service::kApi, "GET", "/images/{name:path}", "archive", "image.export", row::kOwner},
    {Service::kApi, "POST", "/images", "", "image.import", row::kOwner},
    {Service::kApi, "POST", "/images/commit", "", "image.commit", row::kOwner},
    {Service::kApi, "DELETE", "/images/{name:path}", "", "image.delete", row::kOwner},
    {Service::kApi, "POST", "/images/prune", "", "image.prune", row::kOperate},
    {Service::kApi, "POST", "/images/verify", "", "image.verify", row::kOperate},
    {Service::kApi, "GET", "/snapshots", "", "", row::kView},
    {Service::kApi, "GET", "/snapshots/{snapshot_id}", "", "", row::kView},
    {Service::kApi, "GET", "/snapshots/{snapshot_id}", "archive", "snapshot.export", row::kOwner},
    {Service::kApi, "GET", "/snapshots/{snapshot_id}/disk", "", "", row::kView},
    {Service::kApi, "POST", "/snapshots", "", "snapshot.import", row::kOwner},
    {Service::kApi, "DELETE", "/snapshots/{snapshot_id}", "", "snapshot.delete", row::kOwner},
    {Service::kApi, "GET", "/volumes", "", "", row::kView},
    {Service::kApi, "GET", "/volumes/{name}", "", "", row::kView},
    {Service::kApi, "POST", "/volumes", "", "volume.create", row::kOwner},
    {Service::kApi, "DELETE", "/volumes/{name}", "", "volume.delete", row::kOwner},
    {Service::kApi, "GET", "/pools", "", "", row::kView},
    {Service::kApi, "GET", "/pools/{pool_name}", "", "", row::kView},
    {Service::kApi, "POST", "/pools", "", "pool.create", row::kOwner},
    {Service::kApi, "PUT", "/pools/{pool_name}", "", "pool.resize", row::kOwner},
    {Service::kApi, "DELETE", "/pools/{pool_name}", "", "pool.delete", row::kOwner},
    {Service::kApi, "GET", "/templates", "", "", row::kView},
    {Service::kApi, "GET", "/templates/{template_id}", "", "", row::kView},
    {Service::kApi, "POST", "/templates", "", "template.create", row::kOwner},
    {Service::kApi, "DELETE", "/templates/{template_id}", "", "template.delete", row::kOwner},
    {Service::kApi, "GET", "/audit", "", "audit.read", row::kAudit},
    {Service::kApi, "GET", "/audit/head", "", "", row::kAuditHost},
    {Service::kApi, "POST", "/audit/hash", "", "audit.hash", row::kAuditHost},
    {Service::kApi, "GET", "/history", "", "", row::kPast},
    {Service::kApi, "GET", "/history/{sandbox_id}", "", "", row::kPast},
    {Service::kApi, "GET", "/history/{sandbox_id}/logs", "", "content.read", row::kContents},
    {Service::kApi, "GET", "/recordings/{sandbox_id}", "", "", row::kOwner},
    {Service::kApi, "GET", "/recordings/{sandbox_id}/{recording_id}", "", "content.read", row::kOwner},
    {Service::kExecd, "GET", "/ping", "", "", row::kInside},
    {Service::kExecd, "GET", "/metrics", "", "", row::kInside},
    {Service::kExecd, "GET", "/metrics/watch", "", "", row::kInside},
    {Service::kExecd, "GET", "/processes", "", "", row::kInside},
    {Service::kExecd, "POST", "/entrypoint/signal", "", "exec.signal", row::kInside},
    {Service::kExecd, "POST", "/command", "", "exec.command", row::kInside},
    {Service::kExecd, "DELETE", "/command", "", "exec.signal", row::kInside},
    {Service::kExecd, "GET", "/command/status/{id}", "", "", row::kInside},
    {Service::kExecd, "GET", "/command/{id}/logs", "", "", row::kInside},
    {Service::kExecd, "POST", "/session", "", "exec.session", row::kInside},
    {Service::kExecd, "POST", "/session/{id}/run", "", "exec.session", row::kInside},
    {Service::kExecd, "DELETE", "/session/{id}", "", "exec.session", row::kInside},
    {Service::kExecd, "POST", "/pty", "", "exec.pty", row::kInside},
    {Service::kExecd, "GET", "/pty/{id}", "", "", row::kInside},
    {Service::kExecd, "DELETE", "/pty/{id}", "", "exec.pty", row::kInside},
    {Service::kExecd, "GET", "/pty/{id}/ws", "", "exec.pty", row::kInside},
    {Service::kExecd, "POST", "/code", "", "exec.code", row::kInside},
    {Service::kExecd, "DELETE", "/code", "", "exec.signal", row::kInside},
    {Service::kExecd, "POST", "/code/context", "", "exec.code", row::kInside},
    {Service::kExecd, "GET", "/code/contexts", "", "", row::kInside},
    {Service::kExecd, "DELETE", "/code/contexts", "", "exec.code", row::kInside},
    {Service::kExecd, "GET", "/code/contexts/{id}", "", "", row::kInside},
    {Service::kExecd, "DELETE", "/code/contexts/{id}", "", "exec.code", row::kInside},
    {Service::kExecd, "GET", "/v1/isolated/capabilities", "", "", row::kInside},
    {Service::kExecd, "GET", "/v1/isolated/sessions", "", "", row::kInside},
    {Service::kExecd, "POST", "/v1/isolated/session", "", "exec.session", row::kInside},
    {Service::kExecd, "GET", "/v1/isolated/session/{id}", "", "", row::kInside},
    {Service::kExecd, "DELETE", "/v1/isolated/session/{id}", "", "exec.session", row::kInside},
    {Service::kExecd, "POST", "/v1/isolated/session/{id}/run", "", "exec.session", row::kInside},
    {Service::kExecd, "GET", "/v1/isolated/session/{id}/runs/{id}", "", "", row::kInside},
    {Service::kExecd, "GET", "/v1/isolated/session/{id}/runs/{id}/logs", "", "", row::kInside},
    {Service::kExecd, "GET", "/v1/isolated/session/{id}/diff", "", "file.read", row::kInside},
    {Service::kExecd, "POST", "/v1/isolated/session/{id}/commit", "", "file.write", row::kInside},
    {Service::kExecd, "GET", "/files/grep", "", "file.read", row::kInside},
    {Service::kExecd, "GET", "/files/watch", "", "file.read", row::kInside},
    {Service::kExecd, "GET", "/directories/tar", "", "file.read", row::kInside},
    {Service::kExecd, "POST", "/directories/tar", "", "file.write", row::kInside},
    {Service::kExecd, "GET", "/files/info", "", "file.read", row::kInside},
    {Service::kExecd, "GET", "/files/search", "", "file.read", row::kInside},
    {Service::kExecd, "GET", "/files/download", "", "file.read", row::kInside},
    {Service::kExecd, "GET", "/directories/list", "", "file.read", row::kInside},
    {Service::kExecd, "POST", "/files/upload", "", "file.write", row::kInside},
    {Service::kExecd, "POST", "/files/mv", "", "file.write", row::kInside},
    {Service::kExecd, "POST", "/files/replace", "", "file.write", row::kInside},
    {Service::kExecd, "POST", "/files/permissions", "", "file.write", row::kInside},
    {Service::kExecd, "POST", "/directories", "", "file.write", row::kInside},
    {Service::kExecd, "DELETE", "/files", "", "file.delete", row::kInside},
    {Service::kExecd, "DELETE", "/directories", "", "file.delete", row::kInside},
    {Service::kExecd, "GET", "/v1/filesystem/{uid}/{gid}/files/info", "", "file.read", row::kInside},
    {Service::kExecd, "GET", "/v1/filesystem/{uid}/{gid}/files/search", "", "file.read", row::kInside},
    {Service::kExecd, "GET", "/v1/filesystem/{uid}/{gid}/files/download", "", "file.read", row::kInside},
    {Service::kExecd, "GET", "/v1/filesystem/{uid}/{gid}/directories/list", "", "file.read", row::kInside},
    {Service::kExecd, "POST", "/v1/filesystem/{uid}/{gid}/files/upload", "", "file.write", row::kInside},
    {Service::kExecd, "POST", "/v1/filesystem/{uid}/{gid}/files/mv", "", "file.write", row::kInside},
    {Service::kExecd, "POST", "/v1/filesystem/{uid}/{gid}/files/replace", "", "file.write", row::kInside},
    {Service::kExecd, "POST", "/v1/filesystem/{uid}/{gid}/files/permissions", "", "file.write", row::kInside},
    {Service::kExecd, "POST", "/v1/filesystem/{uid}/{gid}/directories", "", "file.write", row::kInside},
    {Service::kExecd, "DELETE", "/v1/filesystem/{uid}/{gid}/files", "", "file.delete", row::kInside},
    {Service::kExecd, "DELETE", "/v1/filesystem/{uid}/{gid}/directories", "", "file.delete", row::kInside},
    {Service::kExecd, "GET", "/v1/isolated/session/{id}/files/info", "", "file.read", row::kInside},
    {Service::kExecd, "GET", "/v1/isolated/session/{id}/files/search", "", "file.read", row::kInside},
    {Service::kExecd, "GET", "/v1/isolated/session/{id}/files/download", "", "file.read", row::kInside},
    {Service::kExecd, "GET", "/v1/isolated/session/{id}/directories/list", "", "file.read", row::kInside},
    {Service::kExecd, "POST", "/v1/isolated/session/{id}/files/upload", "", "file.write", row::kInside},
    {Service::kExecd, "POST", "/v1/isolated/session/{id}/files/mv", "", "file.write", row::kInside},
    {Service::kExecd, "POST", "/v1/isolated/session/{id}/files/replace", "", "file.write", row::kInside},
    {Service::kExecd, "POST", "/v1/isolated/session/{id}/files/permissions", "", "file.write", row::kInside},
    {Service::kExecd, "POST", "/v1/isolated/session/{id}/directories", "", "file.write", row::kInside},
    {Service::kExecd, "DELETE", "/v1/isolated/session/{id}/files", "", "file.delete", row::kInside},
    {Service::kExecd, "DELETE", "/v1/isolated/session/{id}/directories", "", "file.delete", row::kInside},
    {Service::kExecd, "GET", "/forward/{port}", "", "port.open", row::kInside},
    {Service::kExecd, "*", "/proxy/{full_path:path}", "", "port.open", row::kInside},
    {Service::kExecd, "*", "/{full_path:path}", "", "exec.other", row::kInside},
    {Service::kEgress, "GET", "/healthz", "", "", row::kEverybody, true},
    {Service::kEgress, "GET", "/policy", "", "", row::kView},
    {Service::kEgress, "POST", "/policy", "", "policy.change", row::kOwner},
    {Service::kEgress, "PUT", "/policy", "", "policy.change", row::kOwner},
    {Service::kEgress, "PATCH", "/policy", "", "policy.change", row::kOwner},
    {Service::kEgress, "DELETE", "/policy", "", "policy.change", row::kOwner},
    {Service::kEgress, "GET", "/credential-vault", "", "", row::kOwner},
    {Service::kEgress, "POST", "/credential-vault", "", "vault.change", row::kOwner},
    {Service::kEgress, "PATCH", "/credential-vault", "", "vault.change", row::kOwner},
    {Service::kEgress, "DELETE", "/credential-vault", "", "vault.change", row::kOwner},
    {Service::kEgress, "GET", "/credential-vault/credentials", "", "", row::kOwner},
    {Service::kEgress, "GET", "/credential-vault/credentials/{name}", "", "", row::kOwner},
    {Service::kEgress, "GET", "/credential-vault/bindings", "", "", row::kOwner},
    {Service::kEgress, "GET", "/credential-vault/bindings/{name}", "", "", row::kOwner},
    {Service::kEgress, "*", "/{full_path:path}", "", "policy.change", row::kOwner},
    {Service::kPort, "*", "/{full_path:path}", "", "port.open", row::kInside},
};
// clang-format on

// Returns the first role that may use the route.
const char* NeededRole(const Rights& rights) {
  for (const tenants::Role role : tenants::kRoles) {
    if (rights.Of(role) != Reach::kNone) return tenants::RoleName(role);
  }
  return tenants::RoleName(tenants::Role::kAdmin);
}

tl::unexpected<http::Response> Forbid(const std::string& message, const std::string& needs) {
  return Refuse(JsonResponse(403, {{"code", "FORBIDDEN"}, {"message", message}, {"needs", needs}}));
}

}  // namespace

std::span<const Rights> AllRights() {
  return kRights;
}

const Rights* RightsOf(std::string_view method, std::string_view pattern) {
  const auto* found = std::find_if(std::begin(kRights), std::end(kRights), [&](const Rights& row) {
    return row.service == Service::kApi && row.method == method && row.pattern == pattern &&
           row.parameter.empty();
  });
  return found == std::end(kRights) ? nullptr : found;
}

const Rights& ForQuery(const Rights& row, std::string_view query) {
  const Rights* next = &row + 1;
  if (query.empty() || next == std::end(kRights) || next->parameter.empty()) return row;
  for (const auto& [name, value] : http::ParseQuery(query)) {
    if (name == next->parameter) return *next;
  }
  return row;
}

const Rights& RightsAtPort(int port, std::string_view method, std::string_view rest) {
  const Service service = port == kExecdPort    ? Service::kExecd
                          : port == kEgressPort ? Service::kEgress
                                                : Service::kPort;
  // Decoded before it is compared, as execd and the daemon do.
  std::string path;
  // A path that cannot be decoded fits the service's last row only.
  if (!http::PercentDecode(rest.substr(0, rest.find('?')), &path)) path = "/";
  if (!path.starts_with('/')) path.insert(0, "/");
  const Rights* last = nullptr;
  for (const Rights& row : kRights) {
    if (row.service != service) continue;
    last = &row;
    if ((row.method == "*" || row.method == method) && FitsPattern(row.pattern, path)) return row;
  }
  return *last;
}

std::string_view ExecdRouteOf(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  for (const Rights& row : kRights) {
    if (row.service == Service::kExecd && !row.pattern.ends_with(":path}") &&
        FitsPattern(row.pattern, path)) {
      return row.pattern;
    }
  }
  return {};
}

std::string RouteName(const Rights& rights) {
  std::string name(rights.method);
  switch (rights.service) {
    case Service::kApi:
      name.append(" ").append(rights.pattern);
      break;
    case Service::kExecd:
      name.append(" /proxy/44772").append(rights.pattern);
      break;
    case Service::kEgress:
      name.append(" /proxy/18080").append(rights.pattern);
      break;
    case Service::kPort:
      name.append(" /proxy/{port}");
      break;
  }
  if (!rights.parameter.empty()) name.append("?").append(rights.parameter);
  return name;
}

Result<bool> MayUse(tenants::Role role, const std::string& route) {
  for (const Rights& row : kRights) {
    if (RouteName(row) == route) return row.open || row.Of(role) != Reach::kNone;
  }
  return Fail(Code::kNotFound, "there is no route '" + route + "'; docs/roles.md lists all routes");
}

Parsed<tenants::Caller> Judge(const Rights& rights, const tenants::Identity& identity,
                              std::string_view reason) {
  const Reach reach = rights.Of(identity.role);
  if (reach == Reach::kNone) {
    const char* needs = NeededRole(rights);
    return Forbid(std::string("a key with the role ") + tenants::RoleName(identity.role) +
                      " may not do this; it needs a key with the role " + needs,
                  needs);
  }
  if (identity.narrowing && !tenants::MatchesRoute(identity.narrowing->routes, RouteName(rights))) {
    return Forbid("this key is for other routes; use a key without this restriction",
                  tenants::RoleName(identity.role));
  }
  tenants::Caller caller{.tenant = identity.tenant,
                         .key_id = identity.key_id,
                         .role = identity.role,
                         .sees_all = reach == Reach::kAll || reach == Reach::kNames,
                         .names_only = reach == Reach::kNames,
                         .narrowing = identity.narrowing,
                         .subject = identity.subject};
  if (reach == Reach::kOwnOrReason) caller.sees_all = reason.size() >= kMinReason;
  return caller;
}

}  // namespace atl::api
