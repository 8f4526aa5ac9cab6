#include "images/image_archive.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "images/digest.h"
#include "runtime/base/json_text.h"
#include "runtime/base/sys.h"

namespace atl::images {
namespace {

using Json = nlohmann::json;

constexpr off_t kBlock = 512;

void PutOctal(std::string& block, size_t at, size_t width, uint64_t value) {
  for (size_t i = width - 1; i-- > 0; value >>= 3) {
    block[at + i] = static_cast<char>('0' + (value & 7));
  }
}

// Returns the header of a regular file in the format of POSIX.1-1988. It is built here, because a
// library wants a member's name and length before its content.
std::string TarHead(const std::string& name, uint64_t size) {
  std::string block(kBlock, '\0');
  block.replace(0, name.size(), name);
  PutOctal(block, 100, 8, 0644);
  PutOctal(block, 108, 8, 0);  // uid, gid
  PutOctal(block, 116, 8, 0);
  if (size < uint64_t{1} << 33) {
    PutOctal(block, 124, 12, size);
  } else {
    // Binary form, introduced by GNU tar.
    block[124] = static_cast<char>(0x80);
    for (size_t i = 0; i < 8; ++i) block[135 - i] = static_cast<char>(size >> (8 * i));
  }
  PutOctal(block, 136, 12, 0);  // mtime
  block.replace(148, 8, 8, ' ');
  block[156] = '0';
  block.replace(257, 8,
                std::string_view("ustar\0"
                                 "00",
                                 8));
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  PutOctal(block, 148, 7, sum);
  return block;
}

}  // namespace

Json DescriptorJson(const char* type, const std::string& digest, uint64_t size) {
  return {{"mediaType", type}, {"digest", digest}, {"size", size}};
}

std::string BlobName(const std::string& digest) {
  return "blobs/sha256/" + HexOf(digest);
}

Status ImageArchive::BeginMember() {
  member_ = ::lseek(file_, 0, SEEK_CUR);
  if (member_ < 0 || ::lseek(file_, kBlock, SEEK_CUR) < 0) return FailSys("lseek");
  return {};
}

Status ImageArchive::EndMember(const std::string& name) {
  const off_t end = ::lseek(file_, 0, SEEK_CUR);
  if (end < member_ + kBlock) return Fail(Code::kInternal, "the archive has shrunk");
  const off_t size = end - member_ - kBlock;
  if (::lseek(file_, (kBlock - size % kBlock) % kBlock, SEEK_CUR) < 0) {
    return FailSys("lseek");
  }
  const std::string head = TarHead(name, static_cast<uint64_t>(size));
  if (::pwrite(file_, head.data(), head.size(), member_) != kBlock) {
    return FailSys("write the archive");
  }
  return {};
}

Status ImageArchive::DropMember() {
  if (::ftruncate(file_, member_) != 0) return FailSys("ftruncate the archive");
  if (::lseek(file_, member_, SEEK_SET) < 0) return FailSys("lseek");
  return {};
}

Status ImageArchive::AddMember(const std::string& name, const std::string& bytes) {
  ATOLL_TRY(BeginMember());
  ATOLL_TRY(sys::WriteAll(file_, bytes));
  return EndMember(name);
}

Status ImageArchive::AddLayout(const std::string& name, const std::string& manifest,
                               uint64_t size) {
  Json entry = DescriptorJson(kManifestType, manifest, size);
  entry["annotations"] = {{"org.opencontainers.image.ref.name", name}};
  ATOLL_TRY(
      AddMember("index.json", JsonText({{"schemaVersion", 2},
                                        {"mediaType", "application/vnd.oci.image.index.v1+json"},
                                        {"manifests", Json::array({std::move(entry)})}})));
  return AddMember("oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
}

// A tar ends with two blocks of zeros.
Status ImageArchive::Finish() {
  return sys::WriteAll(file_, std::string(2 * kBlock, '\0'));
}

}  // namespace atl::images
