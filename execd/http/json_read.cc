#include <cstring>

#include "execd/http/json.h"
#include "runtime/http/ascii.h"

namespace atl::execd {
namespace {

size_t EncodeUtf8(uint32_t code, char* out) {
  if (code < 0x80) {
    out[0] = static_cast<char>(code);
    return 1;
  }
  if (code < 0x800) {
    out[0] = static_cast<char>(0xC0 | (code >> 6));
    out[1] = static_cast<char>(0x80 | (code & 0x3F));
    return 2;
  }
  if (code < 0x10000) {
    out[0] = static_cast<char>(0xE0 | (code >> 12));
    out[1] = static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out[2] = static_cast<char>(0x80 | (code & 0x3F));
    return 3;
  }
  out[0] = static_cast<char>(0xF0 | (code >> 18));
  out[1] = static_cast<char>(0x80 | ((code >> 12) & 0x3F));
  out[2] = static_cast<char>(0x80 | ((code >> 6) & 0x3F));
  out[3] = static_cast<char>(0x80 | (code & 0x3F));
  return 4;
}

}  // namespace

// Parses in one pass without recursion. The stack of open containers is an array of kMaxDepth
// indices.
class JsonReader {
 public:
  explicit JsonReader(JsonDocument* document) : doc_(*document), text_(document->text_) {}

  bool Read() {
    while (true) {
      SkipSpace();
      if (depth_ > 0 && !BeforeValue()) return false;
      if (closed_) {
        closed_ = false;
      } else {
        SkipSpace();
        if (!Value()) return false;
      }
      if (depth_ == 0) return true;
    }
  }
  size_t offset() const { return at_; }

 private:
  using Node = JsonDocument::Node;

  bool More() const { return at_ < text_.size(); }
  void SkipSpace() {
    while (More() && std::strchr(" \t\r\n", text_[at_]) && text_[at_] != '\0') ++at_;
  }
  bool Take(char c) {
    if (!More() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  // Reads what comes before a value in a container: a comma or the end, and the name of an object's
  // member. Sets closed_ if the container ended.
  bool BeforeValue() {
    const uint32_t open = stack_[depth_ - 1];
    const bool object = doc_.nodes_[open].type == JsonType::kObject;
    if (Take(object ? '}' : ']')) {
      Close();
      return true;
    }
    if (!first_) {
      if (!Take(',')) return false;
      SkipSpace();
      // A comma must be followed by a value.
      if (More() && text_[at_] == (object ? '}' : ']')) return false;
    }
    first_ = false;
    if (!object) return true;
    if (!Take('"') || !String()) return false;
    SkipSpace();
    return Take(':');
  }

  void Close() {
    --depth_;
    doc_.nodes_[stack_[depth_]].after = static_cast<uint32_t>(doc_.nodes_.size());
    first_ = false;
    closed_ = true;
  }

  bool Push(Node node) {
    if (doc_.nodes_.size() >= JsonDocument::kMaxNodes) return false;
    node.after = static_cast<uint32_t>(doc_.nodes_.size() + 1);
    doc_.nodes_.push_back(node);
    return true;
  }

  bool Open(JsonType type) {
    if (depth_ == JsonDocument::kMaxDepth || !Push({type, 0, {0}})) return false;
    stack_[depth_++] = static_cast<uint32_t>(doc_.nodes_.size() - 1);
    first_ = true;
    return true;
  }

  bool Value() {
    if (Take('{')) return Open(JsonType::kObject);
    if (Take('[')) return Open(JsonType::kArray);
    if (Take('"')) return String();
    if (Literal("true")) return Push({JsonType::kBool, 0, {1}});
    if (Literal("false")) return Push({JsonType::kBool, 0, {0}});
    if (Literal("null")) return Push({JsonType::kNull, 0, {0}});
    return Number();
  }

  bool Literal(std::string_view word) {
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }

  size_t Digits() {
    const size_t start = at_;
    while (More() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ - start;
  }

  // Checks only the syntax of fractions and exponents, because no request has a fractional member.
  bool Number() {
    const bool negative = Take('-');
    const size_t start = at_;
    const size_t digits = Digits();
    if (digits == 0 || (digits > 1 && text_[start] == '0')) return false;
    const size_t end = at_;
    bool whole = true;
    if (Take('.')) {
      whole = false;
      if (Digits() == 0) return false;
    }
    if (More() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      whole = false;
      ++at_;
      if (More() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      if (Digits() == 0) return false;
    }
    if (!whole || digits > 18) {
      Node node{JsonType::kNumber, 0, {0}};
      node.text.offset = static_cast<uint32_t>(negative ? start - 1 : start);
      node.text.size = static_cast<uint32_t>(at_ - node.text.offset);
      return Push(node);
    }
    int64_t value = 0;
    for (size_t i = start; i < end; ++i) value = value * 10 + (text_[i] - '0');
    return Push({JsonType::kInteger, 0, {negative ? -value : value}});
  }

  bool Hex4(uint32_t* code) {
    if (at_ + 4 > text_.size()) return false;
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const int digit = http::HexValue(text_[at_ + static_cast<size_t>(i)]);
      if (digit < 0) return false;
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    at_ += 4;
    *code = value;
    return true;
  }

  // Decodes the digits after "\u". A lone surrogate becomes U+FFFD, as in Go. The result is never
  // longer than the escape.
  bool UnicodeEscape(size_t* write) {
    uint32_t code;
    if (!Hex4(&code)) return false;
    if (code >= 0xD800 && code < 0xDC00 && text_.compare(at_, 2, "\\u") == 0) {
      const size_t back = at_;
      at_ += 2;
      uint32_t low;
      if (!Hex4(&low)) return false;
      if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      } else {
        at_ = back;
      }
    }
    if (code >= 0xD800 && code < 0xE000) code = 0xFFFD;
    *write += EncodeUtf8(code, text_.data() + *write);
    return true;
  }

  bool Escape(size_t* write) {
    if (!More()) return false;
    const char c = text_[at_++];
    if (c == 'u') return UnicodeEscape(write);
    static constexpr char kFrom[] = "\"\\/bfnrt";
    static constexpr char kTo[] = "\"\\/\b\f\n\r\t";
    const char* found = c == '\0' ? nullptr : std::strchr(kFrom, c);
    if (!found) return false;
    text_[(*write)++] = kTo[found - kFrom];
    return true;
  }

  // Reads the rest of a string after the opening quote.
  bool String() {
    const size_t start = at_;
    size_t write = at_;
    while (More()) {
      const char c = text_[at_++];
      if (c == '"') {
        Node node{JsonType::kString, 0, {0}};
        node.text.offset = static_cast<uint32_t>(start);
        node.text.size = static_cast<uint32_t>(write - start);
        return Push(node);
      }
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c != '\\') {
        text_[write++] = c;
      } else if (!Escape(&write)) {
        return false;
      }
    }
    return false;
  }

  JsonDocument& doc_;
  std::string& text_;
  size_t at_ = 0;
  uint32_t stack_[JsonDocument::kMaxDepth];
  int depth_ = 0;
  bool first_ = false;
  bool closed_ = false;
};

Result<JsonDocument> JsonDocument::Parse(std::string text, size_t limit) {
  if (text.size() > limit) {
    return Fail(Code::kResourceExhausted, "JSON of more than " + std::to_string(limit) + " bytes");
  }
  JsonDocument document;
  document.text_ = std::move(text);
  JsonReader reader(&document);
  if (!reader.Read()) {
    const bool full = document.nodes_.size() >= kMaxNodes;
    return Fail(Code::kInvalidArgument,
                full ? "JSON with more than " + std::to_string(kMaxNodes) + " values"
                     : "invalid JSON at byte " + std::to_string(reader.offset()));
  }
  return document;
}

JsonType JsonValue::type() const {
  return document_->nodes_[index_].type;
}

std::string_view JsonValue::text() const {
  if (!is(JsonType::kString)) return {};
  const auto& node = document_->nodes_[index_];
  return std::string_view(document_->text_).substr(node.text.offset, node.text.size);
}

std::string_view JsonValue::literal() const {
  if (!is(JsonType::kNumber)) return {};
  const auto& node = document_->nodes_[index_];
  return std::string_view(document_->text_).substr(node.text.offset, node.text.size);
}

bool JsonValue::boolean() const {
  return is(JsonType::kBool) && document_->nodes_[index_].integer != 0;
}

int64_t JsonValue::integer() const {
  return is(JsonType::kInteger) ? document_->nodes_[index_].integer : 0;
}

JsonValue JsonValue::first() const {
  if (!is(JsonType::kArray) && !is(JsonType::kObject)) return {};
  const uint32_t end = document_->nodes_[index_].after;
  const uint32_t at = index_ + (type() == JsonType::kObject ? 2 : 1);
  if (at >= end) return {};
  JsonValue value(document_, at, end);
  value.named_ = type() == JsonType::kObject;
  return value;
}

JsonValue JsonValue::next() const {
  if (!present()) return {};
  uint32_t at = document_->nodes_[index_].after;
  if (at >= end_) return {};
  // The next member's name is between the members of an object.
  const bool member = named_;
  if (member) ++at;
  JsonValue value(document_, at, end_);
  value.named_ = member;
  return value;
}

std::string_view JsonValue::name() const {
  if (!present() || !named_) return {};
  return JsonValue(document_, index_ - 1, end_).text();
}

JsonValue JsonValue::Find(std::string_view name) const {
  JsonValue found;
  if (!is(JsonType::kObject)) return found;
  for (JsonValue member = first(); member.present(); member = member.next()) {
    if (http::EqualNoCase(member.name(), name)) found = member;
  }
  return found;
}

}  // namespace atl::execd
