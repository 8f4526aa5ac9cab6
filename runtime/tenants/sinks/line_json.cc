#include "runtime/tenants/sinks/line_json.h"

#include <nlohmann/json.hpp>

namespace atl::sinks {

std::string PartOf(const nlohmann::json& line, const char* object, const char* member) {
  const auto found = line.find(object);
  return found != line.end() && found->is_object() ? found->value(member, "") : std::string();
}

}  // namespace atl::sinks
