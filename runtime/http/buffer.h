// A contiguous queue of bytes: the socket appends at its end, the parser takes from its start.
// Unlike std::string it does not zero memory that a read is about to overwrite.
//
// Thread rule: a plain object.
#pragma once

#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace atl::http {

class Buffer {
 public:
  std::string_view view() const { return {bytes_.get() + begin_, end_ - begin_}; }
  char* data() { return bytes_.get() + begin_; }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }

  struct Space {
    char* data;
    size_t size;
  };
  // Returns room for at least `n` more bytes. May move or grow the buffer, so earlier views become
  // invalid.
  Space Prepare(size_t n) {
    if (begin_ == end_) begin_ = end_ = 0;
    if (capacity_ - end_ < n) MakeRoom(n);
    return {bytes_.get() + end_, capacity_ - end_};
  }
  void Commit(size_t n) { end_ += n; }
  void Consume(size_t n) { begin_ += n; }
  // Frees the memory if the buffer is empty and its capacity is more than `keep`.
  void Shrink(size_t keep) {
    if (!empty() || capacity_ <= keep) return;
    bytes_.reset();
    begin_ = end_ = capacity_ = 0;
  }

 private:
  void MakeRoom(size_t n) {
    const size_t used = size();
    if (capacity_ - used >= n) {
      std::memmove(bytes_.get(), bytes_.get() + begin_, used);
      // Wipes the old copy, because it may hold a secret and only the moved one is wiped later.
      ::explicit_bzero(bytes_.get() + used, begin_);
    } else {
      size_t capacity = capacity_ * 2;
      if (capacity < used + n) capacity = used + n;
      std::unique_ptr<char[]> grown(new char[capacity]);  // not zeroed
      if (used > 0) std::memcpy(grown.get(), bytes_.get() + begin_, used);
      bytes_ = std::move(grown);
      capacity_ = capacity;
    }
    begin_ = 0;
    end_ = used;
  }

  std::unique_ptr<char[]> bytes_;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t capacity_ = 0;
};

}  // namespace atl::http
