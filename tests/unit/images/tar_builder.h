// Writes tar archives byte by byte, so that tests can write what no honest program would.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace atl::images {

struct TarEntry {
  char type = '0';  // type flag of ustar
  std::string name;
  std::string content;
  std::string link;
  unsigned mode = 0644;
  unsigned long uid = 0, gid = 0;
  unsigned major = 0, minor = 0;
  unsigned long mtime = 1'600'000'000;
  // PAX records before the entry: "path", "SCHILY.xattr.user.x", …
  std::vector<std::pair<std::string, std::string>> pax;
};

class TarBuilder {
 public:
  TarBuilder& Add(const TarEntry& entry) {
    if (!entry.pax.empty()) {
      std::string records;
      for (const auto& [key, value] : entry.pax) records += PaxRecord(key, value);
      Header({.type = 'x', .name = "pax"}, records.size());
      Content(records);
    }
    Header(entry, entry.content.size());
    Content(entry.content);
    return *this;
  }
  TarBuilder& File(std::string name, std::string content, unsigned mode = 0644) {
    return Add({.name = std::move(name), .content = std::move(content), .mode = mode});
  }
  TarBuilder& Dir(std::string name, unsigned mode = 0755) {
    return Add({.type = '5', .name = std::move(name), .mode = mode});
  }
  TarBuilder& Symlink(std::string name, std::string target) {
    return Add({.type = '2', .name = std::move(name), .link = std::move(target), .mode = 0777});
  }
  TarBuilder& HardLink(std::string name, std::string target) {
    return Add({.type = '1', .name = std::move(name), .link = std::move(target)});
  }
  // Adds GNU's 'L' entry: the name of the next entry.
  TarBuilder& LongName(const std::string& name) {
    return Add({.type = 'L', .name = "././@LongLink", .content = name + '\0'});
  }
  // Adds a header that promises `size` bytes, without those bytes.
  TarBuilder& HeaderOnly(const TarEntry& entry, uint64_t size) {
    Header(entry, size);
    return *this;
  }
  TarBuilder& Raw(std::string_view bytes) {
    bytes_.append(bytes);
    return *this;
  }
  std::string Finish() const { return bytes_ + std::string(1024, '\0'); }
  const std::string& Unfinished() const { return bytes_; }

 private:
  static std::string PaxRecord(const std::string& key, const std::string& value) {
    const size_t body = key.size() + value.size() + 3;
    size_t length = body;
    while (length != body + std::to_string(length).size()) {
      length = body + std::to_string(length).size();
    }
    return std::to_string(length) + " " + key + "=" + value + "\n";
  }
  static void Number(char* field, size_t width, uint64_t value) {
    if (width == 12 && value >= (uint64_t{1} << 33)) {  // base 256, an extension of GNU
      for (size_t i = 0; i < 8; ++i) field[11 - i] = static_cast<char>(value >> (8 * i));
      field[0] = static_cast<char>(0x80);
      return;
    }
    for (size_t i = 0; i < width - 1; ++i) {
      field[width - 2 - i] = static_cast<char>('0' + ((value >> (3 * i)) & 7));
    }
  }
  void Header(const TarEntry& entry, uint64_t size) {
    char header[512] = {};
    std::memcpy(header, entry.name.data(), std::min<size_t>(entry.name.size(), 100));
    Number(header + 100, 8, entry.mode);
    Number(header + 108, 8, entry.uid);
    Number(header + 116, 8, entry.gid);
    Number(header + 124, 12, size);
    Number(header + 136, 12, entry.mtime);
    header[156] = entry.type;
    std::memcpy(header + 157, entry.link.data(), std::min<size_t>(entry.link.size(), 100));
    std::memcpy(header + 257, "ustar\00000", 8);
    Number(header + 329, 8, entry.major);
    Number(header + 337, 8, entry.minor);
    std::memset(header + 148, ' ', 8);
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    std::snprintf(header + 148, 8, "%06o", sum & 0777777);
    bytes_.append(header, sizeof header);
  }
  void Content(const std::string& content) {
    bytes_ += content;
    bytes_.append((512 - content.size() % 512) % 512, '\0');
  }

  std::string bytes_;
};

}  // namespace atl::images
