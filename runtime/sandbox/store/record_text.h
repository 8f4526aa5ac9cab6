// Records as text: one JSON object each. The list of the record's fields (record/fields.h) drives
// both the writer and the reader.
//
// The writer appends to the text directly, because the daemon writes transitions on the loop, and a
// tree of the JSON library's values would take seven times as long. The reader runs only at the
// start.
//
// Thread rule: pure functions.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "netpolicy/policy/slot_request.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/record/record_fields.h"

namespace atl::sandbox {

class RecordWriter {
 public:
  RecordWriter() { text_.reserve(512); }
  template <typename T>
  void Required(const char* name, const T& value) {
    used_ = used_ || value != T{};
    Name(name);
    Value(value);
  }
  template <typename T>
  void Added(const char* name, const T& value, const T& /*before*/) {
    Required(name, value);
  }
  template <typename T>
  void Optional(const char* name, const T& value) {
    if (value != T{}) Required(name, value);
  }
  template <typename E, size_t kWords>
  void Word(const char* name, E value, const std::string_view (&words)[kWords]) {
    Required(name, words[static_cast<size_t>(value)]);
  }
  template <typename E, typename To, typename From>
  void Word(const char* name, E value, To to, const From& /*from_word*/) {
    Required(name, std::string_view(to(value)));
  }
  template <typename T, typename Visit>
  void Group(const char* name, const T& value, Visit visit) {
    const size_t before = text_.size();
    const bool used = std::exchange(used_, false);
    Name(name);
    text_ += '{';
    visit(*this, value);
    text_ += '}';
    if (!used_) text_.resize(before);
    used_ = used_ || used;
  }
  std::string Finish() && {
    text_ += '}';
    return std::move(text_);
  }

 private:
  // Call before each value of an object or a list. Writes no comma before the first value.
  void Comma() {
    if (text_.back() != '{' && text_.back() != '[') text_ += ',';
  }
  void Name(std::string_view name) {
    Comma();
    ((text_ += '"') += name) += "\":";
  }
  template <typename T>
  void Value(const T& value) {
    if constexpr (requires { VisitFields(value, *this); }) {
      text_ += '{';
      VisitFields(value, *this);
      text_ += '}';
    } else if constexpr (requires { value.has_value(); }) {
      Value(*value);
    } else if constexpr (std::is_same_v<T, bool>) {
      text_ += value ? "true" : "false";
    } else if constexpr (std::is_integral_v<T>) {
      char digits[24];
      text_.append(digits, std::to_chars(std::begin(digits), std::end(digits), value).ptr);
    } else {
      Write(value);
    }
  }
  void Write(std::string_view text);
  void Write(const std::map<std::string, std::string>& texts);
  void Write(const netpolicy::SharedPolicy& policy);
  template <typename T>
  void Write(const std::vector<T>& items) {
    text_ += '[';
    for (const T& item : items) {
      Comma();
      Value(item);
    }
    text_ += ']';
  }

  std::string text_ = "{";
  bool used_ = false;  // a value other than a default was written
};

class RecordReader {
 public:
  // Borrows both arguments. `status` gets the first error.
  RecordReader(const nlohmann::json& object, Status& status);

  template <typename T>
  void Required(const char* name, T& value) {
    if (const nlohmann::json* node = Find(name)) {
      Value(name, *node, value);
    } else {
      Wrong(name, "is missing");
    }
  }
  template <typename T>
  void Added(const char* name, T& value, const T& before) {
    value = before;
    Optional(name, value);
  }
  template <typename T>
  void Optional(const char* name, T& value) {
    if (const nlohmann::json* node = Find(name)) Value(name, *node, value);
  }
  template <typename E, size_t kWords>
  void Word(const char* name, E& value, const std::string_view (&words)[kWords]) {
    std::string word;
    Required(name, word);
    for (size_t i = 0; i < kWords; ++i) {
      if (words[i] == word) return void(value = static_cast<E>(i));
    }
    Wrong(name, "has no such word");
  }
  template <typename E, typename To, typename From>
  void Word(const char* name, E& value, const To& /*to_word*/, From from) {
    std::string word;
    Required(name, word);
    if (Result<E> parsed = from(word)) {
      value = *parsed;
    } else {
      Wrong(name, "has no such word");
    }
  }
  template <typename T, typename Visit>
  void Group(const char* name, T& value, Visit visit) {
    const nlohmann::json* node = Find(name);
    if (node == nullptr) return;
    RecordReader group(*node, status_);
    visit(group, value);
    group.Finish();
  }
  // Reports an error if the object has a field that was not read.
  void Finish();

 private:
  const nlohmann::json* Find(const char* name);
  void Wrong(const std::string& name, const std::string& what);
  template <typename T>
  void Value(const char* name, const nlohmann::json& node, T& value) {
    if constexpr (requires { VisitFields(value, *this); }) {
      RecordReader members(node, status_);
      VisitFields(value, members);
      members.Finish();
    } else if constexpr (requires { value.has_value(); }) {
      Value(name, node, value.emplace());
    } else if constexpr (requires { value.emplace_back(); }) {
      ReadList(name, node, value);
    } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      ReadNumber(name, node, value);
    } else {
      Read(name, node, value);
    }
  }
  void Read(const char* name, const nlohmann::json& node, bool& value);
  void Read(const char* name, const nlohmann::json& node, int64_t& value);
  void Read(const char* name, const nlohmann::json& node, uint64_t& value);
  void Read(const char* name, const nlohmann::json& node, std::string& value);
  void Read(const char* name, const nlohmann::json& node,
            std::map<std::string, std::string>& value);
  void Read(const char* name, const nlohmann::json& node, netpolicy::SharedPolicy& value);
  template <typename T>
  void ReadNumber(const char* name, const nlohmann::json& node, T& value) {
    std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t> wide = 0;
    Read(name, node, wide);
    if (!std::in_range<T>(wide)) return Wrong(name, "is out of range");
    value = static_cast<T>(wide);
  }
  // Returns the item; null behind the last item, or if `node` is no list.
  const nlohmann::json* Item(const char* name, const nlohmann::json& node, size_t number);
  template <typename T>
  void ReadList(const char* name, const nlohmann::json& node, std::vector<T>& items) {
    while (const nlohmann::json* item = Item(name, node, items.size())) {
      Value(name, *item, items.emplace_back());
    }
  }

  const nlohmann::json& object_;
  Status& status_;
  std::vector<std::string_view> found_;
};

template <typename Visit>
std::string WriteRecord(Visit visit) {
  RecordWriter io;
  visit(io);
  return std::move(io).Finish();
}
// kInternal: the text is no object, lacks a field, or has an unknown field.
Status ReadRecord(std::string_view text, const std::function<void(RecordReader&)>& visit);

// Writes the head and the fields of a record.
template <typename Record>
std::string EncodeRecord(const Record& record) {
  return WriteRecord([&record](RecordWriter& io) {
    VisitHead(record, io);
    VisitFields(record, io);
  });
}
// `record`: default-constructed.
template <typename Record>
Status DecodeRecord(std::string_view text, Record* record) {
  return ReadRecord(text, [record](RecordReader& io) {
    VisitHead(*record, io);
    VisitFields(*record, io);
  });
}

}  // namespace atl::sandbox
