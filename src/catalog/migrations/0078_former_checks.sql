-- SHOW CREATE TABLE says whether a table keeps a former check of its sender.
DROP FUNCTION IF EXISTS headgate.show_create_table(regclass);
