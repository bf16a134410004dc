"""The jars of the local stack, locked. Written by `python -m services.local_stack.lock_jars`; not edited by hand."""

from services.local_stack.artifacts import ArtifactSet, LockedJar
from services.local_stack.ivy import Coordinates

KAFKA_BROKER = ArtifactSet(
    name="kafka-broker-4.1.1",
    title="Kafka broker 4.1.1",
    jars=(
        LockedJar(
            Coordinates("com.dynatrace.hash4j", "hash4j", "0.22.0"),
            "23028a3fd006e530bf495f551083208187cafd8f80624d048eba56442f16a50e",
        ),
        LockedJar(
            Coordinates("com.fasterxml.jackson.core", "jackson-annotations", "2.19.0"),
            "ead60e9cac0e42b57092b9e2d087ff43536e9477d4486ba393037a8cc156cda7",
        ),
        LockedJar(
            Coordinates("com.fasterxml.jackson.core", "jackson-core", "2.19.0"),
            "da8e859bac94874528116a25f20c68560e4287acbf27628711b8a4f96b028430",
        ),
        LockedJar(
            Coordinates("com.fasterxml.jackson.core", "jackson-databind", "2.19.0"),
            "ceda311f476c3b18e1d2b240c94e2dcb9c8d44e70f8afa9facab88bac4ddc03a",
        ),
        LockedJar(
            Coordinates("com.fasterxml.jackson.dataformat", "jackson-dataformat-csv", "2.19.0"),
            "bec1150426b0616bb488149b952b45a0dcb16d9416b017c38f6455ad9389bc68",
        ),
        LockedJar(
            Coordinates("com.fasterxml.jackson.dataformat", "jackson-dataformat-yaml", "2.19.0"),
            "46e54dcbd39d4d12cda18ec9276e7b888e08fc765ea0c77e71662306f0d4abc4",
        ),
        LockedJar(
            Coordinates("com.fasterxml.jackson.datatype", "jackson-datatype-jdk8", "2.19.0"),
            "04f1a3f9da8155995dd00098d6847cdb9b7af67f4a3028c94031eff017c8e3e5",
        ),
        LockedJar(
            Coordinates("com.github.ben-manes.caffeine", "caffeine", "3.2.0"),
            "ec411dfdf0c03f25218648ce89861630b71680e5858a9a7278ebac8e55cab3d7",
        ),
        LockedJar(
            Coordinates("com.github.luben", "zstd-jni", "1.5.6-10"),
            "b6c3237e24b8252a5a9c3a0e1ae30ef8f323412e74bd358548b7a9e527d676df",
        ),
        LockedJar(
            Coordinates("com.google.re2j", "re2j", "1.8"),
            "7b52c72156dd7f98b3237a5b35c1d34fba381b21048c89208913ad80a45dfbd7",
        ),
        LockedJar(
            Coordinates("com.typesafe.scala-logging", "scala-logging_2.13", "3.9.5"),
            "87a3017d3f43e6ace7566fe4c3d615134c6914ff871c8d64bb32ca1d996d0545",
        ),
        LockedJar(
            Coordinates("com.yammer.metrics", "metrics-core", "2.2.0"),
            "6b7a14a6f34c10f8683f7b5e2f39df0f07b58c7dff0e468ebbc713905c46979c",
        ),
        LockedJar(
            Coordinates("commons-beanutils", "commons-beanutils", "1.9.4"),
            "7d938c81789028045c08c065e94be75fc280527620d5bd62b519d5838532368a",
        ),
        LockedJar(
            Coordinates("commons-collections", "commons-collections", "3.2.2"),
            "eeeae917917144a68a741d4c0dff66aa5c5c5fd85593ff217bced3fc8ca783b8",
        ),
        LockedJar(
            Coordinates("commons-digester", "commons-digester", "2.1"),
            "e0b2b980a84fc6533c5ce291f1917b32c507f62bcad64198fff44368c2196a3d",
        ),
        LockedJar(
            Coordinates("commons-logging", "commons-logging", "1.3.2"),
            "6b858424f518015f32bfcd1183a373f4a827d72d026b6031da0c91cf0e8f3489",
        ),
        LockedJar(
            Coordinates("commons-validator", "commons-validator", "1.9.0"),
            "c3c14748e2d78db58df88808740711bd643b32c45ffa7b8a739f00fb467cd7d7",
        ),
        LockedJar(
            Coordinates("net.sf.jopt-simple", "jopt-simple", "5.0.4"),
            "df26cc58f235f477db07f753ba5a3ab243ebe5789d9f89ecf68dd62ea9a66c28",
        ),
        LockedJar(
            Coordinates("net.sourceforge.argparse4j", "argparse4j", "0.7.0"),
            "65ceb669d88f63306c680f8088bbf765bbca72d288a61a03703000076c3d3f56",
        ),
        LockedJar(
            Coordinates("org.apache.kafka", "kafka-clients", "4.1.1"),
            "00247122a572c3d3ae4eb60a50192a5811bc0181f51923d13018600f892e821d",
        ),
        LockedJar(
            Coordinates("org.apache.kafka", "kafka-coordinator-common", "4.1.1"),
            "2072fc1ce7e0505149bba22a463a5909a899c6235c4fa696f15c21194a7baf60",
        ),
        LockedJar(
            Coordinates("org.apache.kafka", "kafka-group-coordinator", "4.1.1"),
            "3eb5a673b69d5992cfa86c5436f39adbf4ce284046a4c999ec6af0a8e31c5589",
        ),
        LockedJar(
            Coordinates("org.apache.kafka", "kafka-group-coordinator-api", "4.1.1"),
            "3d1801d2329dcf7d273796a034d61e6c7e0f851f384d0afbdd3a2e6cbd17a968",
        ),
        LockedJar(
            Coordinates("org.apache.kafka", "kafka-metadata", "4.1.1"),
            "a689665751415b6456de1ecb013042cb7ba99ac68fd8c3e8bf28e098feb43218",
        ),
        LockedJar(
            Coordinates("org.apache.kafka", "kafka-raft", "4.1.1"),
            "4810c93d93d1935dd54de61c5ba130f501c7fe11bc49ccd3ee05ec857818a72a",
        ),
        LockedJar(
            Coordinates("org.apache.kafka", "kafka-server", "4.1.1"),
            "9f6aff422855491aad54326eca8d604163d6d3a6507cc48ffe3ce6de73caf79a",
        ),
        LockedJar(
            Coordinates("org.apache.kafka", "kafka-server-common", "4.1.1"),
            "207edecd8322cf6c13d76d84addea7fd0ec441dc8d698cf69df43210ccdc0a94",
        ),
        LockedJar(
            Coordinates("org.apache.kafka", "kafka-share-coordinator", "4.1.1"),
            "e6bec53428c77bf6579321836d482542a93575f7c08e860a26c9f2c7f6059dac",
        ),
        LockedJar(
            Coordinates("org.apache.kafka", "kafka-storage", "4.1.1"),
            "1f85b82853eaec0143efbef7e3a4d4be8929ff83a386326431e0c2d0a557e58c",
        ),
        LockedJar(
            Coordinates("org.apache.kafka", "kafka-storage-api", "4.1.1"),
            "8c0a712472185d706c6bf5ae24bf5d84a8e396fd4745c708e6146a415f7fa7f7",
        ),
        LockedJar(
            Coordinates("org.apache.kafka", "kafka-tools-api", "4.1.1"),
            "542b08fe20cf872a2d866acdff61ea338b469219dc2ebfae727a1d9ea5737e1a",
        ),
        LockedJar(
            Coordinates("org.apache.kafka", "kafka-transaction-coordinator", "4.1.1"),
            "a261b5730ac9e3205df7af5d45180d851e9d5f729ce1275c67511a6f51f73755",
        ),
        LockedJar(
            Coordinates("org.apache.kafka", "kafka_2.13", "4.1.1"),
            "e89428126cc7630a802123ba27aac4442816840b66d60670226feaff65f24fd1",
        ),
        LockedJar(
            Coordinates("org.apache.logging.log4j", "log4j-api", "2.24.3"),
            "5b4a0a0cd0e751ded431c162442bdbdd53328d1f8bb2bae5fc1bbeee0f66d80f",
        ),
        LockedJar(
            Coordinates("org.apache.logging.log4j", "log4j-core", "2.24.3"),
            "7eb4084596ae25bd3c61698e48e8d0ab65a9260758884ed5cbb9c6e55c44a56a",
        ),
        LockedJar(
            Coordinates("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
            "40dec251164d1576e000968cd02e56a1125f46b91fb694a06dfa168f1335da48",
        ),
        LockedJar(
            Coordinates("org.bitbucket.b_c", "jose4j", "0.9.6"),
            "7314af50cde9c99e8eaf43eee617a23edcc6bb43036221064355094999d837ef",
        ),
        LockedJar(
            Coordinates("org.hdrhistogram", "HdrHistogram", "2.2.2"),
            "22d1d4316c4ec13a68b559e98c8256d69071593731da96136640f864fa14fad8",
        ),
        LockedJar(
            Coordinates("org.jspecify", "jspecify", "1.0.0"),
            "1fad6e6be7557781e4d33729d49ae1cdc8fdda6fe477bb0cc68ce351eafdfbab",
        ),
        LockedJar(
            Coordinates("org.lz4", "lz4-java", "1.8.0"),
            "d74a3334fb35195009b338a951f918203d6bbca3d1d359033dc33edd1cadc9ef",
        ),
        LockedJar(
            Coordinates("org.pcollections", "pcollections", "4.0.2"),
            "2bbeef5797a241300c4f7513cd546239629ed7deda4fc0c31df90bb95f5f13ef",
        ),
        LockedJar(
            Coordinates("org.scala-lang", "scala-library", "2.13.16"),
            "1ebb2b6f9e4eb4022497c19b1e1e825019c08514f962aaac197145f88ed730f1",
        ),
        LockedJar(
            Coordinates("org.scala-lang", "scala-reflect", "2.13.16"),
            "fb49ccd9cac7464486ab993cda20a3c1569d8ef26f052e897577ad2a4970fb1d",
        ),
        LockedJar(
            Coordinates("org.slf4j", "slf4j-api", "1.7.36"),
            "d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0",
        ),
        LockedJar(
            Coordinates("org.xerial.snappy", "snappy-java", "1.1.10.7"),
            "4c766cb3f855415ee734b2392949a0b6f12a60879334a74518deaf6270d32e36",
        ),
        LockedJar(
            Coordinates("org.yaml", "snakeyaml", "2.4"),
            "ef779af5d29a9dde8cc70ce0341f5c6f7735e23edff9685ceaa9d35359b7bb7f",
        ),
    ),
)

SPARK_KAFKA = ArtifactSet(
    name="spark-kafka-4.0.0",
    title="Kafka connector of Spark 4.0.0",
    jars=(
        LockedJar(
            Coordinates("org.apache.commons", "commons-pool2", "2.12.0"),
            "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b",
        ),
        LockedJar(
            Coordinates("org.apache.kafka", "kafka-clients", "3.9.0"),
            "15c1e137f2c2c94398e27abc4060a03b6bde10bf9fac15e8f70c02320b202f18",
        ),
        LockedJar(
            Coordinates("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.0"),
            "33a3b8b04df4a2e43c9d5bf8ca5972936a1ac662f2714e014d00ef6f27468bf3",
        ),
        LockedJar(
            Coordinates("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
            "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
        ),
    ),
)

FLINK_2_KAFKA = ArtifactSet(
    name="flink-kafka-5.0.0-2.2",
    title="Kafka connector of Flink 2",
    jars=(
        LockedJar(
            Coordinates("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2"),
            "5605c691d11a501382c383fecba37a7a552467da5ab7ba904ef5d6f3d62c5616",
        ),
    ),
)

FLINK_1_KAFKA = ArtifactSet(
    name="flink-kafka-3.4.0-1.20",
    title="Kafka connector of Flink 1.20",
    jars=(
        LockedJar(
            Coordinates("org.apache.flink", "flink-connector-kafka", "3.4.0-1.20"),
            "0deab094f7f54df9e8cb7c77c15b4392e1f9923f98f8972b4346f6ff384bf5e6",
        ),
        LockedJar(
            Coordinates("org.apache.kafka", "kafka-clients", "3.9.1"),
            "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9",
        ),
    ),
)

FLINK_AUTOSCALER = ArtifactSet(
    name="flink-autoscaler-1.10.0",
    title="Flink's own autoscaler 1.10.0",
    jars=(
        LockedJar(
            Coordinates("com.esotericsoftware.kryo", "kryo", "2.24.0"),
            "7e56b32c635058f9aa2820f88919ab702d029cbcd15285da9992e36cc0ae52f2",
        ),
        LockedJar(
            Coordinates("com.esotericsoftware.minlog", "minlog", "1.2"),
            "a678cb1aa8f5d03d901c992c75741841d98a9bc3d55dad02e84d65315c4e60f2",
        ),
        LockedJar(
            Coordinates("com.google.code.findbugs", "jsr305", "1.3.9"),
            "905721a0eea90a81534abb7ee6ef4ea2e5e645fa1def0a5cd88402df1b46c9ed",
        ),
        LockedJar(
            Coordinates("com.twitter", "chill-java", "0.7.6"),
            "f7c41a2257be11e6c9bca97095c8f4b0299626941a3508469f90622eb8f8368e",
        ),
        LockedJar(
            Coordinates("commons-cli", "commons-cli", "1.5.0"),
            "bc8bb01fc0fad250385706e20f927ddcff6173f6339b387dc879237752567ac6",
        ),
        LockedJar(
            Coordinates("commons-collections", "commons-collections", "3.2.2"),
            "eeeae917917144a68a741d4c0dff66aa5c5c5fd85593ff217bced3fc8ca783b8",
        ),
        LockedJar(
            Coordinates("commons-io", "commons-io", "2.15.1"),
            "a58af12ee1b68cfd2ebb0c27caef164f084381a00ec81a48cc275fd7ea54e154",
        ),
        LockedJar(
            Coordinates("org.apache.commons", "commons-compress", "1.26.0"),
            "051aceb8bbcc62d0f5b2b8ac72c53767f9c59bfbd050151e65bef6f51c8ed9c9",
        ),
        LockedJar(
            Coordinates("org.apache.commons", "commons-lang3", "3.12.0"),
            "d919d904486c037f8d193412da0c92e22a9fa24230b9d67a57855c5c31c7e94e",
        ),
        LockedJar(
            Coordinates("org.apache.commons", "commons-math3", "3.6.1"),
            "1e56d7b058d28b65abd256b8458e3885b674c1d588fa43cd7d1cbb9c7ef2b308",
        ),
        LockedJar(
            Coordinates("org.apache.commons", "commons-text", "1.10.0"),
            "770cd903fa7b604d1f7ef7ba17f84108667294b2b478be8ed1af3bffb4ae0018",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-annotations", "1.19.1"),
            "ca2dcadc05a85451112599208f29536206ec697e7f63cb902c6cdfc787f169f6",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-autoscaler", "1.10.0"),
            "5185e86960e29dc6b1b94f3ffe02d2a0718a3489b2468e96327513064d6dce60",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-clients", "1.19.1"),
            "15c61aa439ca26e4967ecbd92085b576210a91f19f49221daa72db267be8302c",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-connector-datagen", "1.19.1"),
            "6e627a8b163e23b44dd2d89a59f17decba15f1419197c5e63285685e6675a29b",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-core", "1.19.1"),
            "511f23b97bff1aac823fbf30a8a81ded6c25eb51d1787ac245f485ac82524c46",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-file-sink-common", "1.19.1"),
            "92f1ce7ad0b16330bc2420fcbae1f1907422232fbcf758212e8c7d23473c5bcd",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-hadoop-fs", "1.19.1"),
            "315402ff837b4dce3f941421d380e1bbcd0178092b88823493dcaa39729f06e2",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-java", "1.19.1"),
            "6a9c562cdb86840515afa7fccee893e1b47780492d9c065553e02c2edbfc348d",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-metrics-core", "1.19.1"),
            "ea337748b64375725a7edbd027a588fe79077c2bd2384643f6936f35d3ff1e18",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-optimizer", "1.19.1"),
            "22d8088be6c6cc6c075b043a802afe7cecf1541fa929376d419c35563943322d",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-queryable-state-client-java", "1.19.1"),
            "90640bbb2bb4a52ce5a6b3b61cc7d9aa8e64cbafbde195a0cd24f70e7a0dc38f",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-rpc-core", "1.19.1"),
            "b00d1a68cd56ee42ae2f5255d730b3d73e28b3ac848ced97f30b1cb7414af963",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-runtime", "1.19.1"),
            "1736af325ed52da541e81b551d3061b66b5a47ef161a16533ab3e368f51d786b",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-shaded-asm-9", "9.5-17.0"),
            "a79273d4fbea1683b5fe81bce25d7fe552a542690481132f7ded034a8f00169e",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-shaded-guava", "31.1-jre-17.0"),
            "03442ae97c4ca34388568cbce0e67e9911b0137b2b3849dff7a550008d5a4336",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-shaded-jackson", "2.14.2-17.0"),
            "37e87311498ae8da80adb2aa09ab6e9739d8611e09868e7220822206c739231e",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-shaded-netty", "4.1.91.Final-17.0"),
            "c4d370f1b2bda0b55686fdec840c8a047950b9448f26cd01f1594a3bf0fde75b",
        ),
        LockedJar(
            Coordinates("org.apache.flink", "flink-streaming-java", "1.19.1"),
            "23f5fd58087dc2a4d9f46f76200007718e71c3d77dc60338916a72283fef2aab",
        ),
        LockedJar(
            Coordinates("org.javassist", "javassist", "3.24.0-GA"),
            "aba81efa678b621203fb89aeff81d6f126f7a9dd709401e5609c42976684ae23",
        ),
        LockedJar(
            Coordinates("org.lz4", "lz4-java", "1.8.0"),
            "d74a3334fb35195009b338a951f918203d6bbca3d1d359033dc33edd1cadc9ef",
        ),
        LockedJar(
            Coordinates("org.objenesis", "objenesis", "2.1"),
            "c74330cc6b806c804fd37e74487b4fe5d7c2750c5e15fbc6efa13bdee1bdef80",
        ),
        LockedJar(
            Coordinates("org.quartz-scheduler", "quartz", "2.3.2"),
            "639c6a675bc472e1568df9d8c954ff702da6f83ed27da0ff9a7bd12ed73b8bf0",
        ),
        LockedJar(
            Coordinates("org.slf4j", "slf4j-api", "1.7.36"),
            "d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0",
        ),
        LockedJar(
            Coordinates("org.snakeyaml", "snakeyaml-engine", "2.6"),
            "2652199af40c9aa2f1782400d2dfbbf4e5226208c4e05ddd4059c3d6d9cd1505",
        ),
        LockedJar(
            Coordinates("org.xerial.snappy", "snappy-java", "1.1.10.4"),
            "55b30c94e5c4cc2d4b6976916098d0678a8a6cc7427fa8c875621bd94e731ac8",
        ),
    ),
)
