// The encoding of everything that travels between our processes: little-endian fixed-width
// integers, and byte strings as a 32-bit length and the bytes. No padding, no alignment, no
// self-description: a message's schema is its one list of fields, which writing and reading visit:
//
//   struct Message {
//     uint32_t slot = 0;
//     std::vector<std::string> names;
//     template <typename Self, typename Io>
//     static void Fields(Self& self, Io& io) {
//       io(self.slot);
//       io.List(self.names, kMaxNames);
//     }
//   };
//
// A Reader never reads past its end: the first read that would makes it bad, every later read
// returns zero or empty, and ok() tells at the end. So decoders need one check, and a hostile
// length costs nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace atl::wire {

class Writer {
 public:
  void U8(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void U32(uint32_t value) { Integer(value, 4); }
  void U64(uint64_t value) { Integer(value, 8); }
  void I64(int64_t value) { Integer(static_cast<uint64_t>(value), 8); }
  void Text(std::string_view text) {
    U32(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
  }
  template <typename... T>
  void operator()(const T&... values) {
    (Put(values), ...);
  }
  // A count and the elements. Only the reader minds the bound.
  template <typename T>
  void List(const std::vector<T>& list, size_t /*most*/) {
    U32(static_cast<uint32_t>(list.size()));
    for (const T& item : list) Put(item);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  template <typename T>
  void Put(const T& value) {
    if constexpr (requires { T::Fields(value, *this); }) {
      T::Fields(value, *this);
    } else if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T>) {
      U8(static_cast<uint8_t>(value));
    } else if constexpr (std::is_same_v<T, uint32_t>) {
      U32(value);
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      U64(value);
    } else if constexpr (std::is_integral_v<T>) {
      static_assert(std::is_signed_v<T>);
      I64(value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      Text(value);
    } else {
      for (const auto& item : value) Put(item);  // std::array: both sides know how many
    }
  }
  void Integer(uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  uint8_t U8() { return static_cast<uint8_t>(Integer(1)); }
  uint32_t U32() { return static_cast<uint32_t>(Integer(4)); }
  uint64_t U64() { return Integer(8); }
  int64_t I64() { return static_cast<int64_t>(Integer(8)); }
  std::string Text() {
    const uint32_t size = U32();
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  template <typename... T>
  void operator()(T&... values) {
    (Get(values), ...);
  }
  // A count above `most` is bad.
  template <typename T>
  void List(std::vector<T>& list, size_t most) {
    const uint32_t count = U32();
    if (count > most) ok_ = false;
    for (uint32_t i = 0; ok_ && i < count; ++i) Get(list.emplace_back());
  }
  // True if nothing was missing so far.
  bool ok() const { return ok_; }
  // True if, also, nothing is left over.
  bool complete() const { return ok_ && rest_.empty(); }

 private:
  template <typename T>
  void Get(T& value) {
    if constexpr (requires { T::Fields(value, *this); }) {
      T::Fields(value, *this);
    } else if constexpr (std::is_same_v<T, bool>) {
      value = U8() != 0;
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(U8());
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(Integer(std::is_signed_v<T> ? 8 : sizeof(T)));
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = Text();
    } else {
      for (auto& item : value) Get(item);
    }
  }
  uint64_t Integer(size_t width) {
    if (!ok_ || rest_.size() < width) {
      ok_ = false;
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < width; ++i) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(rest_[i])) << (8 * i);
    }
    rest_.remove_prefix(width);
    return value;
  }
  std::string_view rest_;
  bool ok_ = true;
};

template <typename T>
std::string EncodeFields(const T& value) {
  Writer writer;
  writer(value);
  return writer.Take();
}

// False: the bytes are not exactly one T.
template <typename T>
bool DecodeFields(std::string_view bytes, T* value) {
  Reader reader(bytes);
  reader(*value);
  return reader.complete();
}

}  // namespace atl::wire
