"""Files of the keys of bootstraps of an `Engine` of `becalm.desilo`."""

from __future__ import annotations

from becalm._desilo import Key
from becalm._desilo_files import Files, Path


class KeyFiles(Files):
    """The calls of an engine that write and read keys of bootstraps."""

    def write_small_bootstrap_key(self, small_bootstrap_key: Key, file_path: Path) -> None:
        """Writes the key to a file, for the server.

        Parameters
        ----------
        small_bootstrap_key
            The key.
        file_path
            The file.

        Examples
        --------
        >>> engine = desilo.ToyEngine(use_bootstrap=True)
        >>> secret_key = engine.create_secret_key()
        >>> key = engine.create_small_bootstrap_key(secret_key)
        >>> engine.write_small_bootstrap_key(key, "key.becalm")
        >>> engine.read_small_bootstrap_key("key.becalm").purpose
        'small_bootstrap'
        """
        self._write(small_bootstrap_key, "small_bootstrap", file_path)

    def read_small_bootstrap_key(self, file_path: Path) -> Key:
        """Reads the file of `write_small_bootstrap_key`.

        Returns
        -------
        Key
            The same key.

        Examples
        --------
        >>> engine = desilo.ToyEngine(use_bootstrap=True)
        >>> secret_key = engine.create_secret_key()
        >>> key = engine.create_small_bootstrap_key(secret_key)
        >>> engine.write_small_bootstrap_key(key, "key.becalm")
        >>> engine.read_small_bootstrap_key("key.becalm").purpose
        'small_bootstrap'
        """
        return self._read("small_bootstrap", file_path)

    def write_bootstrap_key(self, bootstrap_key: Key, file_path: Path) -> None:
        """Writes the key, its stages and its size to a file, for the server.

        Parameters
        ----------
        bootstrap_key
            The key.
        file_path
            The file.

        Examples
        --------
        >>> engine = desilo.ToyEngine(use_bootstrap=True)
        >>> secret_key = engine.create_secret_key()
        >>> key = engine.create_bootstrap_key(secret_key)
        >>> engine.write_bootstrap_key(key, "key.becalm")
        >>> engine.read_bootstrap_key("key.becalm").purpose
        'bootstrap'
        """
        self._write(bootstrap_key, "bootstrap", file_path)

    def read_bootstrap_key(self, file_path: Path) -> Key:
        """Reads the file of `write_bootstrap_key`.

        Returns
        -------
        Key
            The same key.

        Examples
        --------
        >>> engine = desilo.ToyEngine(use_bootstrap=True)
        >>> secret_key = engine.create_secret_key()
        >>> key = engine.create_bootstrap_key(secret_key)
        >>> engine.write_bootstrap_key(key, "key.becalm")
        >>> engine.read_bootstrap_key("key.becalm").purpose
        'bootstrap'
        """
        return self._read("bootstrap", file_path)

    def write_lossy_bootstrap_key(self, lossy_bootstrap_key: Key, file_path: Path) -> None:
        """Writes the key, its stages and its size to a file, for the server.

        Parameters
        ----------
        lossy_bootstrap_key
            The key.
        file_path
            The file.

        Examples
        --------
        >>> engine = desilo.ToyEngine(use_bootstrap=True)
        >>> secret_key = engine.create_secret_key()
        >>> key = engine.create_lossy_bootstrap_key(secret_key)
        >>> engine.write_lossy_bootstrap_key(key, "key.becalm")
        >>> engine.read_lossy_bootstrap_key("key.becalm").purpose
        'lossy_bootstrap'
        """
        self._write(lossy_bootstrap_key, "lossy_bootstrap", file_path)

    def read_lossy_bootstrap_key(self, file_path: Path) -> Key:
        """Reads the file of `write_lossy_bootstrap_key`.

        Returns
        -------
        Key
            The same key.

        Examples
        --------
        >>> engine = desilo.ToyEngine(use_bootstrap=True)
        >>> secret_key = engine.create_secret_key()
        >>> key = engine.create_lossy_bootstrap_key(secret_key)
        >>> engine.write_lossy_bootstrap_key(key, "key.becalm")
        >>> engine.read_lossy_bootstrap_key("key.becalm").purpose
        'lossy_bootstrap'
        """
        return self._read("lossy_bootstrap", file_path)

    def write_merge_bootstrap_key(self, merge_bootstrap_key: Key, file_path: Path) -> None:
        """Writes the key, its stages and its size to a file, for the server.

        Parameters
        ----------
        merge_bootstrap_key
            The key.
        file_path
            The file.

        Examples
        --------
        >>> engine = desilo.ToyEngine(use_bootstrap=True)
        >>> secret_key = engine.create_secret_key()
        >>> key = engine.create_merge_bootstrap_key(secret_key)
        >>> engine.write_merge_bootstrap_key(key, "key.becalm")
        >>> engine.read_merge_bootstrap_key("key.becalm").purpose
        'merge_bootstrap'
        """
        self._write(merge_bootstrap_key, "merge_bootstrap", file_path)

    def read_merge_bootstrap_key(self, file_path: Path) -> Key:
        """Reads the file of `write_merge_bootstrap_key`.

        Returns
        -------
        Key
            The same key.

        Examples
        --------
        >>> engine = desilo.ToyEngine(use_bootstrap=True)
        >>> secret_key = engine.create_secret_key()
        >>> key = engine.create_merge_bootstrap_key(secret_key)
        >>> engine.write_merge_bootstrap_key(key, "key.becalm")
        >>> engine.read_merge_bootstrap_key("key.becalm").purpose
        'merge_bootstrap'
        """
        return self._read("merge_bootstrap", file_path)
