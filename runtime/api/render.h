// What clients see of sandboxes and images.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "images/image.h"
#include "runtime/api/list_query.h"
#include "runtime/sandbox/sandbox.h"

namespace atl::api {

nlohmann::json SandboxJson(const sandbox::Sandbox& sandbox);
// `entrypoint` as the request wrote it. No image: the spec leaves it out here.
nlohmann::json CreatedJson(const sandbox::Sandbox& sandbox,
                           const std::vector<std::string>& entrypoint);
nlohmann::json ListJson(const Page& page, const ListQuery& query);
nlohmann::json ImageJson(const images::Image& image);

}  // namespace atl::api
