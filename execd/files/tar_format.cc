#include "execd/files/tar_format.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>

namespace atl::execd {
namespace {

// Offsets and sizes of the fields of POSIX ustar.
struct Field {
  size_t at, size;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kUid{108, 8}, kGid{116, 8}, kSize{124, 12},
    kMtime{136, 12}, kChecksum{148, 8}, kType{156, 1}, kLink{157, 100}, kMagic{257, 8},
    kPrefix{345, 155};

void PutOctal(char* block, Field field, uint64_t value) {
  for (size_t i = field.size - 1; i-- > 0;) {
    block[field.at + i] = static_cast<char>('0' + (value & 7));
    value >>= 3;
  }
}

void PutText(char* block, Field field, std::string_view text) {
  std::memcpy(block + field.at, text.data(), std::min(field.size, text.size()));
}

uint32_t Checksum(const char* block) {
  uint32_t sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) {
    const bool own = i >= kChecksum.at && i < kChecksum.at + kChecksum.size;
    sum += own ? static_cast<uint32_t>(' ') : static_cast<unsigned char>(block[i]);
  }
  return sum;
}

void AppendBlock(std::string* out, const TarEntry& entry) {
  char block[kTarBlock] = {};
  PutText(block, kName, entry.name);
  PutOctal(block, kMode, entry.mode & 07777);
  PutOctal(block, kUid, entry.uid & 07777777);
  PutOctal(block, kGid, entry.gid & 07777777);
  PutOctal(block, kSize, entry.size);
  PutOctal(block, kMtime, static_cast<uint64_t>(std::max<int64_t>(entry.mtime, 0)));
  block[kType.at] = entry.type;
  PutText(block, kLink, entry.link);
  PutText(block, kMagic, std::string_view("ustar\00000", 8));
  PutOctal(block, {kChecksum.at, 7}, Checksum(block));
  block[kChecksum.at + 6] = '\0';
  block[kChecksum.at + 7] = ' ';
  out->append(block, sizeof block);
}

void AppendPaxRecord(std::string* out, std::string_view key, std::string_view value) {
  // The length includes its own digits.
  size_t size = key.size() + value.size() + 3;
  size_t total = size + 1;
  while (std::to_string(total).size() + size != total) ++total;
  out->append(std::to_string(total)).append(" ").append(key).append("=").append(value);
  out->push_back('\n');
}

// Parses octal digits, or GNU's base 256 if the first bit is set.
std::optional<uint64_t> Number(std::string_view block, Field field) {
  std::string_view text = block.substr(field.at, field.size);
  if (static_cast<unsigned char>(text[0]) & 0x80) {
    if (static_cast<unsigned char>(text[0]) != 0x80) return {};
    uint64_t value = 0;
    for (size_t i = 1; i < text.size(); ++i) {
      if (value >> 55) return {};
      value = value << 8 | static_cast<unsigned char>(text[i]);
    }
    return value;
  }
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  uint64_t value = 0;
  for (const char c : text) {
    if (c == ' ' || c == '\0') break;
    if (c < '0' || c > '7') return {};
    value = value << 3 | static_cast<uint64_t>(c - '0');
  }
  return value;
}

std::string Text(std::string_view block, Field field) {
  const std::string_view text = block.substr(field.at, field.size);
  return std::string(text.substr(0, text.find('\0')));
}

}  // namespace

void AppendTarHeader(std::string* out, const TarEntry& entry) {
  std::string records;
  if (entry.name.size() > kName.size) AppendPaxRecord(&records, "path", entry.name);
  if (entry.link.size() > kLink.size) AppendPaxRecord(&records, "linkpath", entry.link);
  if (entry.size >> 33) AppendPaxRecord(&records, "size", std::to_string(entry.size));
  if (entry.uid > 07777777) AppendPaxRecord(&records, "uid", std::to_string(entry.uid));
  if (entry.gid > 07777777) AppendPaxRecord(&records, "gid", std::to_string(entry.gid));
  if (!records.empty()) {
    TarEntry pax;
    pax.type = 'x';
    pax.name = "pax";
    pax.mode = 0644;
    pax.size = records.size();
    AppendBlock(out, pax);
    out->append(records);
    out->append((kTarBlock - records.size() % kTarBlock) % kTarBlock, '\0');
  }
  TarEntry cut = entry;
  if (cut.size >> 33) cut.size = 0;
  AppendBlock(out, cut);
}

Status TarReader::Feed(std::string_view bytes) {
  while (!bytes.empty() && !ended_) {
    if (left_ > 0) {
      const std::string_view part =
          bytes.substr(0, static_cast<size_t>(std::min<uint64_t>(left_, bytes.size())));
      if (in_meta_) meta_.append(part);
      if (in_data_) ATOLL_TRY(sink_.OnData(part));
      left_ -= part.size();
      bytes.remove_prefix(part.size());
      if (left_ == 0 && in_meta_) ATOLL_TRY(Meta());
      if (left_ == 0 && in_data_) {
        in_data_ = false;
        ATOLL_TRY(sink_.OnEntryEnd());
      }
      continue;
    }
    if (padding_ > 0) {
      const size_t part = static_cast<size_t>(std::min<uint64_t>(padding_, bytes.size()));
      padding_ -= part;
      bytes.remove_prefix(part);
      continue;
    }
    const size_t part = std::min(kTarBlock - block_.size(), bytes.size());
    block_.append(bytes.substr(0, part));
    bytes.remove_prefix(part);
    if (block_.size() < kTarBlock) break;
    const std::string block = std::move(block_);
    block_.clear();
    ATOLL_TRY(Header(block));
  }
  return {};
}

Status TarReader::Header(std::string_view block) {
  if (block.find_first_not_of('\0') == std::string_view::npos) {
    ended_ = true;
    return {};
  }
  const auto sum = Number(block, kChecksum);
  const auto size = Number(block, kSize);
  const auto mode = Number(block, kMode), uid = Number(block, kUid), gid = Number(block, kGid);
  if (!sum || *sum != Checksum(block.data()) || !size || !mode || !uid || !gid) {
    return Fail(Code::kInvalidArgument, "tar: malformed header");
  }
  const char type = block[kType.at] == '\0' ? '0' : block[kType.at];
  left_ = *size;
  if (type == 'x' || type == 'L' || type == 'K' || type == 'g') {
    if (left_ > kMaxMeta) return Fail(Code::kInvalidArgument, "tar: name or pax header too long");
    padding_ = (kTarBlock - left_ % kTarBlock) % kTarBlock;
    meta_type_ = type;
    meta_.clear();
    in_meta_ = true;
    return left_ == 0 ? Meta() : Status();
  }
  entry_ = {};
  entry_.type = type == '7' ? '0' : type;
  entry_.name = Text(block, kName);
  const std::string prefix = Text(block, kPrefix);
  if (!prefix.empty() && block.substr(kMagic.at, 6) == std::string_view("ustar\0", 6)) {
    entry_.name = prefix + "/" + entry_.name;
  }
  entry_.link = Text(block, kLink);
  entry_.mode = static_cast<uint32_t>(*mode & 07777);
  entry_.uid = static_cast<uint32_t>(*uid);
  entry_.gid = static_cast<uint32_t>(*gid);
  entry_.mtime = static_cast<int64_t>(Number(block, kMtime).value_or(0));
  return Begin();
}

Status TarReader::Begin() {
  if (!next_name_.empty()) entry_.name = std::move(next_name_);
  if (!next_link_.empty()) entry_.link = std::move(next_link_);
  if (has_next_size_) left_ = next_size_;
  next_name_.clear();
  next_link_.clear();
  has_next_size_ = false;
  // Links and directories have no data, whatever their header says; headers of hard links may have
  // a size.
  if (entry_.type == '1' || entry_.type == '2' || entry_.type == '5') left_ = 0;
  entry_.size = left_;
  padding_ = (kTarBlock - left_ % kTarBlock) % kTarBlock;
  in_data_ = entry_.type == '0';
  ATOLL_TRY(sink_.OnEntry(entry_));
  if (left_ > 0 || !in_data_) return {};
  in_data_ = false;
  return sink_.OnEntryEnd();
}

Status TarReader::Meta() {
  in_meta_ = false;
  const std::string text = meta_.substr(0, meta_.find('\0'));
  if (meta_type_ == 'L') next_name_ = text;
  if (meta_type_ == 'K') next_link_ = text;
  if (meta_type_ == 'x') return Pax();
  return {};
}

// Parses records "LENGTH KEY=VALUE\n".
Status TarReader::Pax() {
  std::string_view rest = meta_;
  while (!rest.empty() && rest.front() != '\0') {
    size_t length = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const size_t digits = static_cast<size_t>(end - rest.data());
    if (error != std::errc() || length > rest.size() || length < digits + 3 ||
        rest[digits] != ' ' || rest[length - 1] != '\n') {
      return Fail(Code::kInvalidArgument, "tar: bad pax header");
    }
    const std::string_view record = rest.substr(digits + 1, length - digits - 2);
    rest.remove_prefix(length);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") next_name_ = value;
    if (key == "linkpath") next_link_ = value;
    if (key == "size") {
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), next_size_);
      if (parsed.ec != std::errc()) return Fail(Code::kInvalidArgument, "tar: bad pax size");
      has_next_size_ = true;
    }
  }
  return {};
}

}  // namespace atl::execd
