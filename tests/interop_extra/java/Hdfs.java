// A file system of Hadoop in one process: a name node and a data node. Its address goes to stdout; it ends with stdin.
//
//     java -cp 'jars/*' Hdfs.java DIRECTORY

import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

public class Hdfs {
    public static void main(String[] args) throws Exception {
        Configuration settings = new Configuration();
        settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, new File(args[0]).getAbsolutePath());
        settings.setBoolean("dfs.permissions.enabled", false);
        settings.setInt("dfs.replication", 1);
        try (MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings).numDataNodes(1).build()) {
            cluster.waitActive();
            System.out.println(cluster.getURI());
            System.in.read();
        }
        System.exit(0);
    }
}
