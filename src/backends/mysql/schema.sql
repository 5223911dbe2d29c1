-- Holdfast, schema 1, for MariaDB 10.6 or later and MySQL 8.0.1 or later.
-- May be run again: it leaves alone what is there.

-- One row a ticket. `ord` is the ticket's order and its fence; InnoDB never gives a value twice.
-- `gone`: 0 it stands, 1 it has left and keeps others out for a while (minHold),
-- 2 it is a tombstone (in no line): its id may not join any more, 3 as 1 now, and a tombstone when that is over.
CREATE TABLE IF NOT EXISTS {prefix}ticket (
  ord BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  line VARBINARY(520) NOT NULL,
  id VARBINARY(64) NOT NULL,
  handle VARBINARY(64) NULL,
  gone TINYINT UNSIGNED NOT NULL DEFAULT 0,
  weight INT UNSIGNED NOT NULL,
  capacity INT UNSIGNED NOT NULL,
  expires DATETIME(6) NOT NULL,
  joined DATETIME(6) NOT NULL,
  holder VARBINARY(12000) NOT NULL,
  PRIMARY KEY (ord),
  UNIQUE KEY id (id),
  KEY line (line, ord, weight, capacity)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Rows that are locked, never changed: a line's lock is the row that its name hashes to.
CREATE TABLE IF NOT EXISTS {prefix}stripe (
  id SMALLINT UNSIGNED NOT NULL,
  PRIMARY KEY (id)
) ENGINE = InnoDB;

INSERT IGNORE INTO {prefix}stripe (id)
SELECT a.n * 4096 + b.n * 256 + c.n * 16 + d.n
FROM ({sixteen}) a, ({sixteen}) b, ({sixteen}) c, ({sixteen}) d;

-- The newest fence seen for each resource: see fenceGuard.
CREATE TABLE IF NOT EXISTS {prefix}fence (
  resource VARBINARY(1024) NOT NULL,
  fence BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (resource)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Session mode: what others can see of a process's tickets. No lock depends on it.
CREATE TABLE IF NOT EXISTS {prefix}session (
  id VARBINARY(64) NOT NULL,
  line VARBINARY(520) NOT NULL,
  ord BIGINT UNSIGNED NOT NULL,
  connection BIGINT UNSIGNED NOT NULL,
  evicted TINYINT UNSIGNED NOT NULL DEFAULT 0,
  joined DATETIME(6) NOT NULL,
  expires DATETIME(6) NOT NULL,
  holder VARBINARY(12000) NOT NULL,
  PRIMARY KEY (id),
  KEY line (line)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Where session mode draws its fences: an AUTO_INCREMENT on MySQL, the server's own counter on MariaDB.
CREATE TABLE IF NOT EXISTS {prefix}draw (
  n BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  PRIMARY KEY (n)
) ENGINE = InnoDB;

-- That counter may go back: no number at or above this one has been used. `server` is the last that drew.
CREATE TABLE IF NOT EXISTS {prefix}floor (
  one TINYINT NOT NULL,
  n BIGINT UNSIGNED NOT NULL,
  server BIGINT UNSIGNED NOT NULL DEFAULT 0,
  PRIMARY KEY (one)
) ENGINE = InnoDB;

INSERT IGNORE INTO {prefix}floor (one, n) VALUES (1, 1);

-- What this run of the server adds to its counter. In memory: it is to be gone after a restart.
/*M!100600 CREATE TABLE IF NOT EXISTS {prefix}run (
  server BIGINT UNSIGNED NOT NULL,
  lift BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (server)
) ENGINE = MEMORY */;

CREATE TABLE IF NOT EXISTS {prefix}schema (
  one TINYINT NOT NULL,
  version INT NOT NULL,
  PRIMARY KEY (one)
) ENGINE = InnoDB;

INSERT IGNORE INTO {prefix}schema (one, version) VALUES (1, 1);
