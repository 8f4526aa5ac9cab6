// Reads members of a line of the audit log.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace atl::sinks {

// Returns the text `member` of the object `object` of the line; empty if it has none.
std::string PartOf(const nlohmann::json& line, const char* object, const char* member);

}  // namespace atl::sinks
