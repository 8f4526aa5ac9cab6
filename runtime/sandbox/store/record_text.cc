#include "runtime/sandbox/store/record_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "netpolicy/policy/policy_json.h"
#include "runtime/base/json_text.h"

namespace atl::sandbox {

using nlohmann::json;

void RecordWriter::Write(std::string_view text) {
  const auto plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::all_of(text.begin(), text.end(), plain)) {
    ((text_ += '"') += text) += '"';
  } else {
    // The JSON library escapes the text and replaces bytes that are not UTF-8.
    text_ += JsonText(json(text));
  }
}

void RecordWriter::Write(const std::map<std::string, std::string>& texts) {
  text_ += '{';
  for (const auto& [name, text] : texts) {
    Comma();
    Write(name);
    text_ += ':';
    Write(text);
  }
  text_ += '}';
}

void RecordWriter::Write(const netpolicy::SharedPolicy& policy) {
  Write(netpolicy::PolicyToJson(*policy));
}

RecordReader::RecordReader(const json& object, Status& status) : object_(object), status_(status) {
  if (!object.is_object() && status_) status_ = Fail(Code::kInternal, "not an object");
}

const json* RecordReader::Find(const char* name) {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(name);
  if (found == object_.end()) return nullptr;
  found_.push_back(name);
  return &*found;
}

void RecordReader::Wrong(const std::string& name, const std::string& what) {
  if (status_) status_ = Fail(Code::kInternal, "its field '" + name + "' " + what);
}

void RecordReader::Finish() {
  if (!object_.is_object() || object_.size() == found_.size()) return;
  for (const auto& [name, value] : object_.items()) {
    if (std::find(found_.begin(), found_.end(), name) != found_.end()) continue;
    return Wrong(name, "is not known here: a newer Atoll has written it");
  }
}

void RecordReader::Read(const char* name, const json& node, bool& value) {
  if (!node.is_boolean()) return Wrong(name, "is not true or false");
  value = node.get<bool>();
}

void RecordReader::Read(const char* name, const json& node, int64_t& value) {
  const bool fits = node.is_number_integer() &&
                    (!node.is_number_unsigned() || std::in_range<int64_t>(node.get<uint64_t>()));
  if (!fits) return Wrong(name, "is not such a number");
  value = node.get<int64_t>();
}

void RecordReader::Read(const char* name, const json& node, uint64_t& value) {
  if (!node.is_number_unsigned()) return Wrong(name, "is not such a number");
  value = node.get<uint64_t>();
}

void RecordReader::Read(const char* name, const json& node, std::string& value) {
  if (!node.is_string()) return Wrong(name, "is not a text");
  value = node.get_ref<const std::string&>();
}

void RecordReader::Read(const char* name, const json& node,
                        std::map<std::string, std::string>& value) {
  if (!node.is_object()) return Wrong(name, "is not an object");
  for (const auto& [key, item] : node.items()) Read(name, item, value[key]);
}

void RecordReader::Read(const char* name, const json& node, netpolicy::SharedPolicy& value) {
  std::string text;
  Read(name, node, text);
  auto parsed = netpolicy::ParsePolicy(text);
  if (!parsed) return Wrong(name, "is no policy: " + parsed.error().message());
  value = netpolicy::Share(*std::move(parsed));
}

const json* RecordReader::Item(const char* name, const json& node, size_t number) {
  if (!node.is_array()) {
    Wrong(name, "is not a list");
    return nullptr;
  }
  return number < node.size() ? &node[number] : nullptr;
}

Status ReadRecord(std::string_view text, const std::function<void(RecordReader&)>& visit) {
  const auto object = ParseJson(text);
  if (!object) return Fail(Code::kInternal, object.error().message());
  Status status;
  RecordReader reader(*object, status);
  visit(reader);
  reader.Finish();
  return status;
}

}  // namespace atl::sandbox
