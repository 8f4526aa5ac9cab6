// Renders sandboxes, snapshots and images as JSON for clients.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "images/image.h"
#include "netpolicy/policy/denials.h"
#include "runtime/api/requests/list_query.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/store/snapshot_store.h"
#include "runtime/sandbox/volumes/volumes.h"

namespace atl::api {

nlohmann::json PageJson(nlohmann::json items, const PageTotals& totals, const Paging& paging);
nlohmann::json SandboxJson(const sandbox::Sandbox& sandbox);
// `entrypoint` is as the request wrote it. The image is left out, as the spec requires.
nlohmann::json CreatedJson(const sandbox::Sandbox& sandbox,
                           const std::vector<std::string>& entrypoint);
// Renders the children, and a list of what they do not inherit from their parent.
nlohmann::json ForkJson(const std::vector<sandbox::Sandbox>& children);
nlohmann::json RollbackJson(const sandbox::Sandbox& sandbox);
nlohmann::json ListJson(const Page& page, const ListQuery& query);
// Leaves out size and digest, because clients' models refuse fields that the spec does not name.
nlohmann::json SnapshotJson(const sandbox::Snapshot& snapshot);
nlohmann::json SnapshotsJson(const PageOf<sandbox::Snapshot>& page, const Paging& paging);
nlohmann::json ImageJson(const images::Image& image);
// Renders answers to `…/disk`, and a volume's size.
nlohmann::json DiskUseJson(const wire::DiskUse& use);
nlohmann::json DenialsJson(const std::vector<netpolicy::Denial>& denials);
nlohmann::json LayersJson(const std::vector<images::Layer>& layers);

}  // namespace atl::api
