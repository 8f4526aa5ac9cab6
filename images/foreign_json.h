// Parses JSON from untrusted sources. Refuses a name that occurs twice in an object, so that no two
// readers see different things in one document; most parsers accept it (this one would keep the
// last).
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::images {

inline constexpr size_t kMaxJsonBytes = 4 << 20;
inline constexpr int kMaxJsonDepth = 64;

// `what` names the document in errors.
Result<nlohmann::json> ParseForeignJson(std::string_view bytes, std::string_view what);
Result<nlohmann::json> ParseForeignObject(std::string_view bytes, std::string_view what);

}  // namespace atl::images
