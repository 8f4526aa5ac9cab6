#include "images/export.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "images/digest.h"
#include "images/oci_layout.h"
#include "images/report.h"
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

// Of a regular file, as POSIX.1-1988 has it. Not by a library: what the member's name and length
// are is known only after its content has been written behind it.
std::string TarHead(const std::string& name, uint64_t size) {
  std::string block(kBlock, '\0');
  block.replace(0, name.size(), name);
  PutOctal(block, 100, 8, 0644);
  PutOctal(block, 108, 8, 0);  // uid, gid
  PutOctal(block, 116, 8, 0);
  if (size < uint64_t{1} << 33) {
    PutOctal(block, 124, 12, size);
  } else {
    // As GNU and all since have it: binary.
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

Json DescriptorOf(const char* type, const std::string& digest, uint64_t size) {
  return {{"mediaType", type}, {"digest", digest}, {"size", size}};
}

std::string BlobName(const std::string& digest) {
  return "blobs/sha256/" + HexOf(digest);
}

}  // namespace

Status CompareContent(const Layer& layer, const std::string& content) {
  if (layer.content.empty() || layer.content == content) return {};
  return Fail(Code::kFailedPrecondition,
              "layer " + layer.blob_digest + " has changed on disk since it was imported (" +
                  layer.content + " then, " + content + " now); import its image again");
}

Export::Export(std::weak_ptr<bool> owner, Loop& loop, UnpackRunner& runner, Image image,
               std::vector<Layer> layers, ArchiveForm form, UniqueFd file, Done done)
    : owner_(std::move(owner)),
      loop_(loop),
      runner_(runner),
      image_(std::move(image)),
      layers_(std::move(layers)),
      form_(form),
      file_(std::move(file)),
      done_(std::move(done)) {}

void Export::OnPool(std::function<Status()> work, std::function<void()> next) {
  auto status = std::make_shared<Status>();
  loop_.RunBlocking([work = std::move(work), status] { *status = work(); },
                    [self = shared_from_this(), next = std::move(next), status] {
                      if (self->owner_.expired()) return;
                      if (!*status) return self->done_(Fail(std::move(*status).error()));
                      next();
                    });
}

void Export::PackNext() {
  if (packed_.size() == layers_.size()) {
    return OnPool([this, self = shared_from_this()] { return Finish(); },
                  [this] { done_(std::move(file_)); });
  }
  OnPool([this, self = shared_from_this()] { return BeginMember(); },
         [this] {
           runner_.PackLayer(layers_[packed_.size()].id, file_.get(),
                             [self = shared_from_this()](const Result<std::string>& report) {
                               if (!self->owner_.expired()) self->Packed(report);
                             });
         });
}

void Export::Packed(const Result<std::string>& text) {
  if (!text) return done_(Fail(DecodeUnpackError(text.error())));
  const auto report = ParseUnpackReport(*text);
  if (!report) return done_(Fail(report.error()));
  const Status same = CompareContent(layers_[packed_.size()], report->content);
  if (!same) return done_(Fail(same.error()));
  packed_.push_back({report->content, report->bytes});
  OnPool(
      [this, self = shared_from_this()] {
        const std::string& content = packed_.back().content;
        return EndMember(form_ == ArchiveForm::kOci ? BlobName(content)
                                                    : HexOf(content) + "/layer.tar");
      },
      [this] { PackNext(); });
}

// Leaves room for the head of what follows. The file's place is shared with whoever writes it.
Status Export::BeginMember() {
  member_ = ::lseek(file_.get(), 0, SEEK_CUR);
  if (member_ < 0 || ::lseek(file_.get(), kBlock, SEEK_CUR) < 0) return FailSys("lseek");
  return {};
}

Status Export::EndMember(const std::string& name) {
  const off_t end = ::lseek(file_.get(), 0, SEEK_CUR);
  if (end < member_ + kBlock) return Fail(Code::kInternal, "the archive has become shorter");
  const off_t size = end - member_ - kBlock;
  if (::lseek(file_.get(), (kBlock - size % kBlock) % kBlock, SEEK_CUR) < 0) {
    return FailSys("lseek");
  }
  const std::string head = TarHead(name, static_cast<uint64_t>(size));
  if (::pwrite(file_.get(), head.data(), head.size(), member_) != kBlock) {
    return FailSys("write the archive");
  }
  return {};
}

Status Export::AddMember(const std::string& name, const std::string& bytes) {
  ATOLL_TRY(BeginMember());
  ATOLL_TRY(sys::WriteAll(file_.get(), bytes));
  return EndMember(name);
}

Status Export::Finish() {
  Json diff_ids = Json::array();
  for (const Packing& layer : packed_) diff_ids.push_back(layer.content);
  const ImageConfig& process = image_.config;
  Json config = {{"Env", process.env}};
  if (!process.entrypoint.empty()) config["Entrypoint"] = process.entrypoint;
  if (!process.cmd.empty()) config["Cmd"] = process.cmd;
  if (!process.working_dir.empty()) config["WorkingDir"] = process.working_dir;
  if (!process.user.empty()) config["User"] = process.user;
  const std::string architecture =
      process.architecture.empty() ? std::string(HostArchitecture()) : process.architecture;
  const std::string text = Json({{"architecture", architecture},
                                 {"os", "linux"},
                                 {"config", std::move(config)},
                                 {"rootfs", {{"type", "layers"}, {"diff_ids", diff_ids}}}})
                               .dump();
  ATOLL_TRY(form_ == ArchiveForm::kOci ? FinishOci(text) : FinishDocker(text));
  // The end: two blocks of zeros.
  return sys::WriteAll(file_.get(), std::string(2 * kBlock, '\0'));
}

Status Export::FinishOci(const std::string& config) {
  constexpr char kManifest[] = "application/vnd.oci.image.manifest.v1+json";
  const std::string config_digest = Sha256Of(config);
  Json layers = Json::array();
  for (const Packing& layer : packed_) {
    layers.push_back(
        DescriptorOf("application/vnd.oci.image.layer.v1.tar", layer.content, layer.size));
  }
  const std::string manifest =
      Json({{"schemaVersion", 2},
            {"mediaType", kManifest},
            {"config", DescriptorOf("application/vnd.oci.image.config.v1+json", config_digest,
                                    config.size())},
            {"layers", std::move(layers)}})
          .dump();
  Json entry = DescriptorOf(kManifest, Sha256Of(manifest), manifest.size());
  entry["annotations"] = {{"org.opencontainers.image.ref.name", image_.name}};
  ATOLL_TRY(AddMember(BlobName(config_digest), config));
  ATOLL_TRY(AddMember(BlobName(Sha256Of(manifest)), manifest));
  ATOLL_TRY(AddMember("index.json", Json({{"schemaVersion", 2},
                                          {"mediaType", "application/vnd.oci.image.index.v1+json"},
                                          {"manifests", Json::array({std::move(entry)})}})
                                        .dump()));
  return AddMember("oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
}

Status Export::FinishDocker(const std::string& config) {
  Json layers = Json::array();
  for (const Packing& layer : packed_) layers.push_back(HexOf(layer.content) + "/layer.tar");
  const std::string name = HexOf(Sha256Of(config)) + ".json";
  ATOLL_TRY(AddMember(name, config));
  return AddMember(
      "manifest.json",
      Json::array({{{"Config", name}, {"RepoTags", {image_.name}}, {"Layers", std::move(layers)}}})
          .dump());
}

}  // namespace atl::images
