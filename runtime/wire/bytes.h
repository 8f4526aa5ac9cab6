// The encoding of all messages between the programs: little-endian fixed-width integers, and byte
// strings as a 32-bit length and the bytes. There is no padding, no alignment and no
// self-description. The schema of a message is its single list of fields, which both writing and
// reading visit:
//
//   struct Message {
//     uint32_t slot = 0;
//     Kind kind = Kind::kSmall;
//     std::vector<std::string> names;
//     UniqueFd log;
//     template <typename Self, typename Io>
//     static void Fields(Self& self, Io& io) {
//       io(self.slot, self.log);
//       io.Enum(self.kind, Kind::kSmall, Kind::kLarge);
//       io.List(self.names, kMaxNames);
//     }
//   };
//
// A descriptor takes no bytes; it travels beside them. A variant is the kType of its alternative,
// one byte, followed by the alternative. A message without members has no list.
//
// Each value has exactly one encoding: reading and writing it again gives the same bytes. A Reader
// never reads past its end. The first read that would, or that finds bytes that no Writer writes,
// makes the Reader bad: every later read returns zero or empty, and ok() is false. Therefore a
// decoder needs only one check, and a hostile length costs nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/unique_fd.h"

namespace atl::wire {

template <typename T>
inline constexpr bool kIsVariant = false;
template <typename... T>
inline constexpr bool kIsVariant<std::variant<T...>> = true;

// Returns true if each type of a variant has a different number.
template <typename... T>
consteval bool NumbersDiffer(const std::variant<T...>*) {
  bool taken[256] = {};
  return (!std::exchange(taken[T::kType], true) && ...);
}

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
  // Bounds are checked only by the reader.
  template <typename T>
  void Enum(T value, T /*first*/, T /*last*/) {
    U8(static_cast<uint8_t>(value));
  }
  // Writes a count and the elements.
  template <typename T>
  void List(const std::vector<T>& list, size_t /*most*/) {
    U32(static_cast<uint32_t>(list.size()));
    for (const T& item : list) Put(item);
  }
  std::string Take() { return std::move(bytes_); }
  // Borrowed from the written values.
  std::vector<int> TakeDescriptors() { return std::move(descriptors_); }

 private:
  template <typename T>
  void Put(const T& value) {
    if constexpr (requires { T::Fields(value, *this); }) {
      T::Fields(value, *this);
    } else if constexpr (std::is_empty_v<T>) {
    } else if constexpr (kIsVariant<T>) {
      static_assert(NumbersDiffer(static_cast<const T*>(nullptr)));
      std::visit(
          [this](const auto& alternative) {
            U8(alternative.kType);
            Put(alternative);
          },
          value);
    } else if constexpr (std::is_same_v<T, UniqueFd>) {
      descriptors_.push_back(value.get());
    } else if constexpr (std::is_same_v<T, bool>) {
      U8(value ? 1 : 0);
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
      for (const auto& item : value) Put(item);  // std::array: both sides know its size
    }
  }
  void Integer(uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  std::string bytes_;
  std::vector<int> descriptors_;
};

class Reader {
 public:
  // `descriptors` came with the bytes. Reading moves them out.
  explicit Reader(std::string_view bytes, std::span<UniqueFd> descriptors = {})
      : rest_(bytes), descriptors_(descriptors) {}

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
  template <typename T>
  void Enum(T& value, T first, T last) {
    const uint8_t number = U8();
    if (number < static_cast<uint8_t>(first) || number > static_cast<uint8_t>(last)) ok_ = false;
    if (ok_) value = static_cast<T>(number);
  }
  // A count above `most` makes the reader bad.
  template <typename T>
  void List(std::vector<T>& list, size_t most) {
    const uint32_t count = U32();
    if (count > most) ok_ = false;
    list.clear();
    for (uint32_t i = 0; ok_ && i < count; ++i) Get(list.emplace_back());
  }
  // True if every read so far succeeded.
  bool ok() const { return ok_; }
  // True if every read succeeded and nothing is left over.
  bool complete() const { return ok_ && rest_.empty() && descriptors_.empty(); }

 private:
  template <typename T>
  void Get(T& value) {
    if constexpr (requires { T::Fields(value, *this); }) {
      T::Fields(value, *this);
    } else if constexpr (std::is_empty_v<T>) {
    } else if constexpr (kIsVariant<T>) {
      GetAlternative(value);
    } else if constexpr (std::is_same_v<T, UniqueFd>) {
      if (descriptors_.empty()) {
        ok_ = false;
        return;
      }
      value = std::move(descriptors_.front());
      descriptors_ = descriptors_.subspan(1);
    } else if constexpr (std::is_same_v<T, bool>) {
      const uint8_t byte = U8();
      if (byte > 1) ok_ = false;
      value = byte == 1;
    } else if constexpr (std::is_integral_v<T>) {
      const uint64_t bits = Integer(std::is_signed_v<T> ? 8 : sizeof(T));
      value = static_cast<T>(bits);
      if (static_cast<uint64_t>(value) != bits) ok_ = false;
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = Text();
    } else {
      for (auto& item : value) Get(item);
    }
  }
  template <typename... T>
  void GetAlternative(std::variant<T...>& value) {
    const uint8_t type = U8();
    const auto get = [&]<typename A>(std::type_identity<A>) {
      if (A::kType == type) Get(value.template emplace<A>());
      return A::kType == type;
    };
    if (!(get(std::type_identity<T>()) || ...)) ok_ = false;
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
  std::span<UniqueFd> descriptors_;
  bool ok_ = true;
};

// A value that is encoded in place but stored elsewhere. Code that only holds or forwards a message
// with one needs no definition of T. Copies share the value.
template <typename T>
class Boxed {
 public:
  Boxed() = default;
  Boxed(T value) : value_(std::make_shared<T>(std::move(value))) {}
  // Returns a default T if there is no value.
  const T& operator*() const {
    static const T none{};
    return value_ ? *value_ : none;
  }
  const T* operator->() const { return &**this; }

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    if constexpr (std::is_const_v<Self>) {
      io(*self);
    } else {
      auto value = std::make_shared<T>(*self);
      io(*value);
      self.value_ = std::move(value);
    }
  }

 private:
  std::shared_ptr<const T> value_;
};

template <typename T>
std::string EncodeFields(const T& value) {
  Writer writer;
  writer(value);
  return writer.Take();
}

// Returns false unless the bytes and descriptors are exactly one T.
template <typename T>
bool DecodeFields(std::string_view bytes, T* value, std::span<UniqueFd> descriptors = {}) {
  Reader reader(bytes, descriptors);
  reader(*value);
  return reader.complete();
}

// The content of one packet.
struct Packet {
  std::string bytes;
  std::vector<int> descriptors;  // borrowed from the message
};
template <typename T>
Packet EncodePacket(const T& value) {
  Writer writer;
  writer(value);
  return {writer.Take(), writer.TakeDescriptors()};
}

}  // namespace atl::wire
