#include "images/foreign_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "images/report.h"

namespace atl::images {

using Json = nlohmann::json;

Result<Json> ParseForeignJson(std::string_view bytes, std::string_view what) {
  if (bytes.size() > kMaxJsonBytes) {
    return Fail(Code::kResourceExhausted, std::string(what) + ": larger than the " +
                                              std::to_string(kMaxJsonBytes) + " bytes allowed");
  }
  std::string fault;
  std::vector<std::set<std::string>> names;  // names of the objects that are open
  const Json::parser_callback_t check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    // A rejected value gets no event for its end.
    if (!fault.empty()) return false;
    using Event = Json::parse_event_t;
    if ((event == Event::object_start || event == Event::array_start) && depth >= kMaxJsonDepth) {
      fault = "nested deeper than " + std::to_string(kMaxJsonDepth) + " levels";
    } else if (event == Event::object_start) {
      names.emplace_back();
    } else if (event == Event::object_end) {
      names.pop_back();
    } else if (event == Event::key) {
      const std::string& name = parsed.get_ref<const std::string&>();
      if (!names.back().insert(name).second) fault = "it has '" + Printable(name, 80) + "' twice";
    }
    return fault.empty();
  };
  Json json = Json::parse(bytes, check, /*allow_exceptions=*/false);
  if (!fault.empty()) return Fail(Code::kInvalidArgument, std::string(what) + ": " + fault);
  if (json.is_discarded()) return Fail(Code::kInvalidArgument, std::string(what) + ": not JSON");
  return json;
}

Result<Json> ParseForeignObject(std::string_view bytes, std::string_view what) {
  auto json = ParseForeignJson(bytes, what);
  if (json && !json->is_object()) {
    return Fail(Code::kInvalidArgument, std::string(what) + ": not a JSON object");
  }
  return json;
}

}  // namespace atl::images
