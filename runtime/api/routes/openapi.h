// The description of the API that GET /openapi.json serves: openapi.json beside this file.
#pragma once

#include <string_view>

namespace atl::api {

std::string_view OpenApiDocument();

}  // namespace atl::api
