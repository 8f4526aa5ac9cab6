#include "images/catalog.h"

#include <cerrno>
#include <utility>

#include "images/image_name.h"
#include "images/oci_layout.h"

namespace atl::images {
namespace {

// State of a layer. A leftover's directory may or may not exist.
constexpr int64_t kLeftover = 0;
constexpr int64_t kReady = 1;
// Room on disk for the record of one image, and for forgetting all of them.
constexpr int64_t kRoom = 512 << 10;

// The name of an image is its ImageKey.
//
// AUTOINCREMENT guarantees that a number is never used twice, so no layer can be mistaken for
// another.
Status CreateTables(sqlite::Db& db) {
  return db.Exec(R"sql(
CREATE TABLE layers(
  id INTEGER PRIMARY KEY AUTOINCREMENT CHECK(id BETWEEN 1 AND 4294967295),
  blob_digest TEXT NOT NULL,
  diff_id TEXT NOT NULL,
  size INTEGER NOT NULL,
  opaque_root INTEGER NOT NULL,
  state INTEGER NOT NULL);
CREATE UNIQUE INDEX ready_layers ON layers(blob_digest) WHERE state = 1;
CREATE TABLE images(
  name TEXT PRIMARY KEY,
  digest TEXT NOT NULL,
  config TEXT NOT NULL,
  size INTEGER NOT NULL,
  created INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE image_layers(
  image TEXT NOT NULL REFERENCES images(name) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  layer INTEGER NOT NULL REFERENCES layers(id),
  PRIMARY KEY(image, position)) WITHOUT ROWID;
)sql");
}

// The content of layers from before it was recorded is unknown.
Status AddContents(sqlite::Db& db) {
  return db.Exec("ALTER TABLE layers ADD COLUMN content TEXT NOT NULL DEFAULT ''");
}

constexpr sqlite::SchemaStep kSteps[] = {CreateTables, AddContents};

}  // namespace

Result<Catalog> Catalog::Open(const std::string& path) {
  ATOLL_ASSIGN(sqlite::Db db, sqlite::Db::Open(path, {.durable = true}));
  if (auto migrated = sqlite::Migrate(db, kSteps); !migrated) {
    return Fail(std::move(migrated).error().Wrap(path));
  }
  // A failure is ignored: even without room images can be removed, and ReserveLayers reports it.
  [[maybe_unused]] const Status kept = db.KeepRoom(kRoom);
  return Catalog(std::move(db));
}

Result<std::vector<Image>> Catalog::LoadImages() {
  std::vector<Image> images;
  ATOLL_ASSIGN(sqlite::Stmt rows,
               db_.Prepare("SELECT name, digest, config, size, created FROM images"));
  ATOLL_ASSIGN(sqlite::Stmt layers,
               db_.Prepare("SELECT layer FROM image_layers WHERE image = ?1 ORDER BY position"));
  for (;;) {
    ATOLL_ASSIGN(const bool row, rows.Step());
    if (!row) return images;
    Image image;
    const std::string key = rows.ColumnText(0);
    const size_t at = key.find('@');
    image.name = key.substr(0, at);
    if (at != std::string::npos) image.tenant = key.substr(at + 1);
    image.digest = rows.ColumnText(1);
    ATOLL_ASSIGN(image.config, DecodeImageConfig(rows.ColumnText(2)));
    image.size_bytes = static_cast<uint64_t>(rows.ColumnInt(3));
    image.created_at_ms = rows.ColumnInt(4);
    layers.Bind(1, key);
    for (;;) {
      ATOLL_ASSIGN(const bool layer, layers.Step());
      if (!layer) break;
      image.layers.push_back(static_cast<wire::LayerId>(layers.ColumnInt(0)));
    }
    layers.Reset();
    images.push_back(std::move(image));
  }
}

Result<std::vector<Layer>> Catalog::LoadLayers() {
  std::vector<Layer> layers;
  ATOLL_ASSIGN(sqlite::Stmt rows, db_.Prepare("SELECT id, blob_digest, diff_id, size, opaque_root, "
                                              "content FROM layers WHERE state = 1"));
  for (;;) {
    ATOLL_ASSIGN(const bool row, rows.Step());
    if (!row) return layers;
    layers.push_back({static_cast<wire::LayerId>(rows.ColumnInt(0)), rows.ColumnText(1),
                      rows.ColumnText(2), static_cast<uint64_t>(rows.ColumnInt(3)),
                      rows.ColumnInt(4) != 0, rows.ColumnText(5)});
  }
}

Result<std::vector<wire::LayerId>> Catalog::LoadLeftovers() {
  std::vector<wire::LayerId> ids;
  ATOLL_ASSIGN(sqlite::Stmt rows, db_.Prepare("SELECT id FROM layers WHERE state = 0"));
  for (;;) {
    ATOLL_ASSIGN(const bool row, rows.Step());
    if (!row) return ids;
    ids.push_back(static_cast<wire::LayerId>(rows.ColumnInt(0)));
  }
}

Status Catalog::CheckRoom() {
  ATOLL_ASSIGN(const int64_t room, db_.Room());
  if (room >= kRoom / 2) return {};
  return Fail(Error(Code::kResourceExhausted,
                    "the file system of <data_dir>/state is full: make room there", ENOSPC));
}

Result<std::vector<wire::LayerId>> Catalog::ReserveLayers(size_t count) {
  ATOLL_TRY(CheckRoom());
  std::vector<wire::LayerId> ids;
  ATOLL_ASSIGN(sqlite::Transaction txn, sqlite::Transaction::Begin(db_));
  ATOLL_ASSIGN(sqlite::Stmt insert, db_.Prepare("INSERT INTO layers(blob_digest, diff_id, size, "
                                                "opaque_root, state) VALUES('', '', 0, 0, ?1)"));
  for (size_t i = 0; i < count; ++i) {
    ATOLL_TRY(insert.Bind(1, kLeftover).Run());
    ids.push_back(static_cast<wire::LayerId>(db_.LastInsertId()));
  }
  ATOLL_TRY(txn.Commit());
  return ids;
}

Status Catalog::MarkReady(const std::vector<Layer>& layers) {
  ATOLL_ASSIGN(sqlite::Stmt ready,
               db_.Prepare("UPDATE layers SET blob_digest = ?2, diff_id = ?3, size = ?4, "
                           "opaque_root = ?5, state = ?6, content = ?7 WHERE id = ?1"));
  for (const Layer& layer : layers) {
    ATOLL_TRY(ready.Bind(1, int64_t{layer.id})
                  .Bind(2, layer.blob_digest)
                  .Bind(3, layer.diff_id)
                  .Bind(4, static_cast<int64_t>(layer.size_bytes))
                  .Bind(5, int64_t{layer.opaque_root})
                  .Bind(6, kReady)
                  .Bind(7, layer.content)
                  .Run());
  }
  return {};
}

Status Catalog::InsertImage(const Image& image) {
  // INSERT OR REPLACE would not do: its implicit deletion does not reliably trigger the foreign
  // keys' cascade.
  const std::string key = ImageKey(image.tenant, image.name);
  ATOLL_TRY(RemoveImage(key));
  ATOLL_ASSIGN(sqlite::Stmt insert, db_.Prepare("INSERT INTO images VALUES(?1, ?2, ?3, ?4, ?5)"));
  ATOLL_TRY(insert.Bind(1, key)
                .Bind(2, image.digest)
                .Bind(3, EncodeImageConfig(image.config))
                .Bind(4, static_cast<int64_t>(image.size_bytes))
                .Bind(5, image.created_at_ms)
                .Run());
  ATOLL_ASSIGN(sqlite::Stmt stack, db_.Prepare("INSERT INTO image_layers VALUES(?1, ?2, ?3)"));
  for (size_t i = 0; i < image.layers.size(); ++i) {
    ATOLL_TRY(stack.Bind(1, key)
                  .Bind(2, static_cast<int64_t>(i))
                  .Bind(3, int64_t{image.layers[i]})
                  .Run());
  }
  return {};
}

Status Catalog::CommitImages(const std::vector<Image>& images,
                             const std::vector<Layer>& new_layers) {
  ATOLL_TRY(CheckRoom());
  ATOLL_ASSIGN(sqlite::Transaction txn, sqlite::Transaction::Begin(db_));
  ATOLL_TRY(MarkReady(new_layers));
  for (const Image& image : images) ATOLL_TRY(InsertImage(image));
  return txn.Commit();
}

Status Catalog::RemoveImage(const std::string& key) {
  ATOLL_ASSIGN(sqlite::Stmt remove, db_.Prepare("DELETE FROM images WHERE name = ?1"));
  return remove.Bind(1, key).Run();
}

Status Catalog::CondemnLayers(const std::vector<wire::LayerId>& layers) {
  ATOLL_ASSIGN(sqlite::Transaction txn, sqlite::Transaction::Begin(db_));
  ATOLL_ASSIGN(sqlite::Stmt update, db_.Prepare("UPDATE layers SET state = ?2 WHERE id = ?1"));
  for (const wire::LayerId layer : layers) {
    ATOLL_TRY(update.Bind(1, int64_t{layer}).Bind(2, kLeftover).Run());
  }
  return txn.Commit();
}

Status Catalog::ForgetLayer(wire::LayerId layer) {
  ATOLL_ASSIGN(sqlite::Stmt remove, db_.Prepare("DELETE FROM layers WHERE id = ?1 AND state = ?2"));
  return remove.Bind(1, int64_t{layer}).Bind(2, kLeftover).Run();
}

}  // namespace atl::images
