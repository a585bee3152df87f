//! Files of a sandbox.

use std::path::{Path, PathBuf};

use crate::call::{ByteStream, Payload};
use crate::error::{Error, Result};
use crate::id;
use crate::sandbox::Sandbox;
use crate::sse::EventStream;
use crate::types::{
    FileChange, FileInfo, FileMeta, FileMetaAnswer, FileMove, FsChmodRequest, FsCopyRequest, FsDeleteRequest, FsDownloadRequest,
    FsInfoRequest, FsListRequest, FsMkdirRequest, FsMoveRequest, FsReadRequest, FsRmdirRequest, FsSearchRequest,
    FsSymlinkRequest, FsUploadQuery, FsWatchRequest, FsWriteRequest,
};

/// The files of a sandbox; [`Sandbox::filesystem`] gives it. Paths are absolute or relative to the workspace, and stay
/// inside it unless [`anywhere`](Self::anywhere) was said.
#[derive(Debug, Clone, Copy)]
pub struct FileSystem<'a> {
    pub(crate) sandbox: &'a Sandbox,
}

/// As [`FileSystem`], for all of the sandbox's files.
#[derive(Debug, Clone, Copy)]
pub struct AnyFiles<'a> {
    sandbox: &'a Sandbox,
}

impl<'a> FileSystem<'a> {
    /// For paths outside of the workspace, too.
    pub fn anywhere(self) -> AnyFiles<'a> {
        AnyFiles { sandbox: self.sandbox }
    }
}

/// A file that is being written, which goes when it is given up.
struct Part(PathBuf);

impl Part {
    fn of(local: &Path) -> Self {
        let mut name = local.as_os_str().to_owned();
        name.push(format!(".{}.part", &id::key()[..8]));
        Self(name.into())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0); // it has its name already when it is whole
    }
}

/// The same methods for both; the second says that any path will do.
macro_rules! methods {
    ($name:ident, $anywhere:expr) => {
        impl $name<'_> {
            fn id(&self) -> &str {
                self.sandbox.id()
            }

            /// A file's text; what is no UTF-8 is replaced.
            pub async fn read(&self, path: &str) -> Result<String> {
                let request = FsReadRequest { path: path.to_owned(), anywhere: $anywhere, ..Default::default() };
                self.sandbox.client().api().fs_read(self.id(), &request).await
            }

            /// Makes a file of a text, or replaces it.
            pub async fn write(&self, path: &str, content: &str) -> Result<()> {
                let request = FsWriteRequest {
                    path: path.to_owned(),
                    content: content.to_owned(),
                    anywhere: $anywhere,
                    ..Default::default()
                };
                self.sandbox.client().api().fs_write(self.id(), &request).await.map(drop)
            }

            /// Makes a file of bytes, or replaces it. A stream is sent as it comes, however long it is.
            pub async fn upload(&self, path: &str, bytes: impl Into<Payload>) -> Result<()> {
                self.upload_mode(path, bytes, None).await
            }

            /// As [`upload`](Self::upload), with its mode in octal digits.
            pub async fn upload_mode(&self, path: &str, bytes: impl Into<Payload>, mode: Option<&str>) -> Result<()> {
                let query = FsUploadQuery {
                    path: Some(path.to_owned()),
                    mode: mode.map(str::to_owned),
                    anywhere: $anywhere,
                    ..Default::default()
                };
                self.sandbox.client().api().fs_upload_from(self.id(), &query, bytes).await.map(drop)
            }

            /// Copies a file of this machine into the sandbox.
            pub async fn upload_file(&self, local: impl AsRef<Path>, path: &str) -> Result<()> {
                self.upload(path, Payload::file(local).await?).await
            }

            /// A file's bytes, all of them in memory.
            pub async fn download(&self, path: &str) -> Result<Vec<u8>> {
                self.download_stream(path).await?.collect().await
            }

            /// A file's bytes as they come.
            pub async fn download_stream(&self, path: &str) -> Result<ByteStream> {
                let request = FsDownloadRequest { path: path.to_owned(), anywhere: $anywhere, ..Default::default() };
                self.sandbox.client().api().fs_download_bytes(self.id(), &request).await
            }

            /// A part of a file: so many bytes from one on.
            pub async fn download_part(&self, path: &str, offset: u64, limit: u64) -> Result<Vec<u8>> {
                let request = FsDownloadRequest {
                    path: path.to_owned(),
                    offset: Some(offset as i64),
                    limit: Some(limit as i64),
                    anywhere: $anywhere,
                    ..Default::default()
                };
                self.sandbox.client().api().fs_download_bytes(self.id(), &request).await?.collect().await
            }

            /// Copies a file of the sandbox to this machine; how long it is. It is there whole, or as it was before.
            pub async fn download_file(&self, path: &str, local: impl AsRef<Path>) -> Result<u64> {
                let bytes = self.download_stream(path).await?;
                let part = Part::of(local.as_ref());
                let mut file = tokio::fs::File::create(&part.0).await?;
                let size = bytes.write_to(&mut file).await?;
                tokio::fs::rename(&part.0, local).await?;
                Ok(size)
            }

            /// What is in a directory.
            pub async fn list(&self, path: &str) -> Result<Vec<FileInfo>> {
                let request = FsListRequest { path: Some(path.to_owned()), anywhere: $anywhere, ..Default::default() };
                self.sandbox.client().api().fs_list(self.id(), &request).await
            }

            /// The paths whose names a pattern fits.
            pub async fn search(&self, pattern: &str, dir: Option<&str>) -> Result<Vec<String>> {
                let request = FsSearchRequest {
                    pattern: pattern.to_owned(),
                    dir: dir.map(str::to_owned),
                    anywhere: $anywhere,
                    ..Default::default()
                };
                self.sandbox.client().api().fs_search(self.id(), &request).await
            }

            /// What a path is.
            pub async fn info(&self, path: &str) -> Result<FileMeta> {
                let request = FsInfoRequest { path: Some(path.to_owned()), anywhere: $anywhere, ..Default::default() };
                match self.sandbox.client().api().fs_info(self.id(), &request).await? {
                    FileMetaAnswer::FileMeta(meta) => Ok(meta),
                    FileMetaAnswer::FileMetaList(list) if list.len() == 1 => Ok(list.into_iter().next().expect("one")),
                    _ => Err(Error::Protocol(format!("{path}: the answer is none about one path"))),
                }
            }

            /// Removes a file.
            pub async fn delete(&self, path: &str) -> Result<()> {
                let request = FsDeleteRequest { path: path.to_owned(), anywhere: $anywhere, ..Default::default() };
                self.sandbox.client().api().fs_delete(self.id(), &request).await.map(drop)
            }

            /// Makes a directory, and those above it.
            pub async fn mkdir(&self, path: &str) -> Result<()> {
                let request = FsMkdirRequest { paths: Some(vec![path.to_owned()]), anywhere: $anywhere, ..Default::default() };
                self.sandbox.client().api().fs_mkdir(self.id(), &request).await.map(drop)
            }

            /// Removes a directory with all that is in it.
            pub async fn rmdir(&self, path: &str) -> Result<()> {
                let request = FsRmdirRequest { paths: Some(vec![path.to_owned()]), anywhere: $anywhere, ..Default::default() };
                self.sandbox.client().api().fs_rmdir(self.id(), &request).await.map(drop)
            }

            /// Gives a path another name.
            pub async fn rename(&self, from: &str, to: &str) -> Result<()> {
                let step = FileMove { from: from.to_owned(), to: to.to_owned(), ..Default::default() };
                let request = FsMoveRequest { moves: vec![step], anywhere: $anywhere, ..Default::default() };
                self.sandbox.client().api().fs_move(self.id(), &request).await.map(drop)
            }

            /// Copies a file or a directory with all that is in it.
            pub async fn copy(&self, from: &str, to: &str) -> Result<()> {
                let request =
                    FsCopyRequest { from: from.to_owned(), to: to.to_owned(), anywhere: $anywhere, ..Default::default() };
                self.sandbox.client().api().fs_copy(self.id(), &request).await.map(drop)
            }

            /// Makes a path a link to another.
            pub async fn symlink(&self, target: &str, path: &str) -> Result<()> {
                let request = FsSymlinkRequest {
                    path: path.to_owned(),
                    target: target.to_owned(),
                    anywhere: $anywhere,
                    ..Default::default()
                };
                self.sandbox.client().api().fs_symlink(self.id(), &request).await.map(drop)
            }

            /// Sets a path's mode, in octal digits.
            pub async fn chmod(&self, path: &str, mode: &str) -> Result<()> {
                let request =
                    FsChmodRequest { path: path.to_owned(), mode: mode.to_owned(), anywhere: $anywhere, ..Default::default() };
                self.sandbox.client().api().fs_chmod(self.id(), &request).await.map(drop)
            }

            /// Tells of changes below a path as they happen; the first event is `ready`.
            pub async fn watch(&self, path: &str, recursive: bool) -> Result<EventStream<FileChange>> {
                let request = FsWatchRequest {
                    path: Some(path.to_owned()),
                    recursive: Some(recursive),
                    anywhere: $anywhere,
                    ..Default::default()
                };
                self.sandbox.client().api().fs_watch(self.id(), &request).await
            }
        }
    };
}

methods!(FileSystem, None);
methods!(AnyFiles, Some(true));
