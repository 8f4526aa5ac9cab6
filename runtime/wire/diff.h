// One difference in the output of atoll-unpack, which is a sequence of these. The content is
// hostile even if it is well-formed.
//
//   KIND TYPE SIZE PATH NUL        "A f 1024 srv/new", "M d 0 etc", "D l 0 bin/sh"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace atl::wire {

struct DiffEntry {
  char kind = 'A';  // Added, Modified, Deleted
  char type = 'f';  // file, directory, link, pipe (p), socket, character or block device
  uint64_t size = 0;
  std::string path;  // relative to the top, no leading slash; any bytes except NUL

  std::string Encode() const {
    return std::string{kind, ' ', type, ' '} + std::to_string(size) + " " + path + '\0';
  }
  // `record`: without its NUL.
  static std::optional<DiffEntry> Decode(std::string_view record);
};

}  // namespace atl::wire
